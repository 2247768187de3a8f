package python

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// renewed prints random numbers of two copies that have the process number of the
// process that they are copies of, as it can be in branches.
const renewed = `
import gc, random, ssl
try:
    import numpy.random
except ImportError:
    numpy = None
ssl.RAND_bytes(8), random.random()
class Needs(random.Random):
    def seed(self, a): super().seed(a)
class Fixed(random.Random):
    def seed(self, a=7): super().seed(7)
class Fails(random.Random):
    def seed(self, *a):
        if hasattr(self, "made"): raise ValueError("seeded once")
        self.made = True
generators = [random.Random(1), Needs(1), Fixed(1), Fails(1), random.SystemRandom(1)]
if numpy:
    class Bits(numpy.random.PCG64):
        def __init__(self, seed, more): super().__init__(seed)
    class Early(numpy.random.RandomState):
        def seed(self, seed=7): super().seed(7)
    state, early = numpy.random.RandomState(1), Early(1)
    numpy.random.randn(), state.randn()  # the next one is in store
    generators += [numpy.random.default_rng(1), numpy.random.Generator(Bits(1, None)), numpy.random.RandomState(numpy.random.SFC64(1)), early]
    for kind in (numpy.random.MT19937, numpy.random.PCG64DXSM, numpy.random.Philox):
        generators.append(numpy.random.Generator(kind(1)))
_generators.extend(_find_generators())
here = os.getpid()
for number in (1, 2):
    if os.fork() == 0:
        _check(_libc.unshare(0x20000000), "new pid namespace")
        if os.fork() == 0:
            assert os.getpid() == here, os.getpid()
            _renew(number)
            print(ssl.RAND_bytes(8).hex(), random.random())
            print(*(g.random() if hasattr(g, "random") else g.random_sample() for g in generators))
            if numpy:
                print(numpy.random.randn(), state.randn())
            sys.stdout.flush()
            os._exit(0)
        os.wait()
        os._exit(0)
    os.wait()
`

// TestRandomNumbers: those of copies differ, also where the library asks for the process
// number to notice that it is in another process.
func TestRandomNumbers(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"/usr/bin/python3", "/usr/bin/unshare"} {
		if _, err := os.Stat(program); err != nil {
			t.Skip(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "/usr/bin/unshare", "-r", "-p", "-f", "/usr/bin/python3", "-c", Warm+renewed).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := map[string]bool{}
	for _, number := range strings.Fields(string(out)) {
		if seen[number] {
			t.Errorf("%s came twice:\n%s", number, out)
		}
		seen[number] = true
	}
	if len(seen) < 2*7 {
		t.Errorf("%s", out)
	}
}
