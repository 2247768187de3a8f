package seccomp

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

var update = flag.Bool("update", false, "rewrite the programs that are kept and the golden files")

func build(t interface {
	Helper()
	Fatal(args ...any)
}, arch syscalls.Arch, o Options,
) Filter {
	t.Helper()
	f, err := Build(arch, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEveryNumber compares the program with the model on every number of the
// table and beyond, on the interesting arguments of each call.
func TestEveryNumber(t *testing.T) {
	t.Parallel()
	for _, arch := range syscalls.Arches() {
		for _, o := range []Options{
			{},
			{Notify: Denials},
			{Notify: Denials, Allow: []string{"mount", "clone3", "socket", "clone", "mknod"}},
			{Allow: []string{"read", "ioctl"}},
			{Live: true},
			{Held: true, Notify: Denials, Allow: []string{"timer_create", "setns"}},
			{Held: true, Notify: Denials, Allow: []string{"clone", "clone3"}},
			{Live: true, Notify: Denials, Allow: []string{"mknodat", "renameat2", "chmod"}},
		} {
			t.Run(fmt.Sprint(arch, o), func(t *testing.T) {
				t.Parallel()
				program := build(t, arch, o).Program()
				checked, free := 0, 0
				for number := range uint32(1024) {
					steps := checkNumber(t, program, arch, o, number)
					name, _ := syscalls.Name(arch, int(number))
					_, denied := syscalls.Denied(name)
					listed := func(list []syscalls.Rule) bool {
						return slices.ContainsFunc(list, func(r syscalls.Rule) bool { return r.Name == name })
					}
					if denied || o.Live && listed(syscalls.LiveRules()) || o.Held && listed(syscalls.HeldRules()) {
						checked = max(checked, steps)
					} else {
						free = max(free, steps)
					}
				}
				for _, number := range []uint32{x32Bit, x32Bit | 1, x32Bit | 56, x32Bit | 520, 1 << 31, 1<<31 | 165, 0xfffffffe, 0xffffffff} {
					checkNumber(t, program, arch, o, number)
				}
				if free > 12 || checked > 26 || len(program) > 255 {
					t.Errorf("the program has grown to %d instructions, %d for a call that it lets through, %d for one that it looks at", len(program), free, checked)
				}
			})
		}
	}
}

func checkNumber(t *testing.T, program []unix.SockFilter, arch syscalls.Arch, o Options, number uint32) (longest int) {
	t.Helper()
	name, _ := syscalls.Name(arch, int(int32(number)))
	for i, args := range interesting(name) {
		audits := []uint32{auditArch(arch)}
		if i < 2 {
			audits = []uint32{auditAMD64, auditARM64, auditI386, auditARM, 0}
		}
		for _, audit := range audits {
			c := call{audit, number, args}
			got, steps, err := run(program, c)
			if err != nil {
				t.Fatalf("%s %+v: %v", name, c, err)
			}
			longest = max(longest, steps)
			if want := model(arch, o, c); got != want {
				t.Fatalf("%s %+v: %s, want %s", name, c, answerName(got), answerName(want))
			}
		}
	}
	return longest
}

// TestAnyExceptions does the same with random exceptions, numbers and arguments.
func TestAnyExceptions(t *testing.T) {
	t.Parallel()
	names := syscalls.Names()
	var denied []string
	for _, r := range syscalls.Rules() {
		denied = append(denied, r.Name)
	}
	rapid.Check(t, func(t *rapid.T) {
		arch := rapid.SampledFrom(syscalls.Arches()).Draw(t, "arch")
		o := Options{
			Allow:  rapid.SliceOfN(rapid.SampledFrom(denied), 0, 70).Draw(t, "allow"),
			Notify: rapid.SampledFrom([]Notify{0, Denials}).Draw(t, "notify"), Live: rapid.Bool().Draw(t, "live"),
			Held: rapid.Bool().Draw(t, "held"),
		}
		program := build(t, arch, o).Program()
		for range 50 {
			c := call{arch: auditArch(arch), number: rapid.Uint32().Draw(t, "number")}
			if number, ok := syscalls.Number(arch, rapid.SampledFrom(names).Draw(t, "name")); ok {
				c.number = uint32(number)
			}
			for i := range c.args {
				c.args[i] = rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 300)).Draw(t, "argument")
			}
			got, _, err := run(program, c)
			if want := model(arch, o, c); err != nil || got != want {
				t.Fatalf("%+v: %s, want %s, error %v", c, answerName(got), answerName(want), err)
			}
		}
	})
}

func TestBuildRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "mounts", "Mount", "mount "} {
		if _, err := Build(syscalls.AMD64, Options{Allow: []string{"mount", name}}); !errors.Is(err, errUnknownCall) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := (Filter{}).Install(0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("the zero filter: %v", err)
	}
}

// TestExceptionsWithoutEffect: what is not denied anyway changes nothing.
func TestExceptionsWithoutEffect(t *testing.T) {
	t.Parallel()
	for _, arch := range syscalls.Arches() {
		for _, notify := range []Notify{0, Denials} {
			bare := build(t, arch, Options{Notify: notify})
			if got := build(t, arch, Options{Allow: []string{"read", "ptrace"}, Notify: notify}); got.Hash() != bare.Hash() {
				t.Errorf("%s: the hash differs", arch)
			}
			if got := build(t, arch, Options{Allow: []string{"mount"}, Notify: notify}); got.Hash() == bare.Hash() {
				t.Errorf("%s: an exception and the same hash", arch)
			}
		}
	}
	// Not a call of this architecture: assembled, and the same program.
	if got := build(t, syscalls.ARM64, Options{Allow: []string{"iopl"}, Notify: Denials}); got.Hash() != build(t, syscalls.ARM64, Options{Notify: Denials}).Hash() {
		t.Error("iopl changes the program of arm64")
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	f := build(t, syscalls.AMD64, Options{Notify: Denials})
	if !f.Notifies() || f.plain().Notifies() || f.plain().plain().Hash() != f.plain().Hash() {
		t.Error("Plain does not tell what it is")
	}
	if f.Hash() == f.plain().Hash() || f.Hash() != build(t, syscalls.AMD64, Options{Notify: Denials}).Hash() {
		t.Error("Plain has changed the filter that it was made from")
	}
	if !strings.HasPrefix(f.Hash(), "sha256:") || len(f.Hash()) != 7+64 {
		t.Errorf("hash %s", f.Hash())
	}
	f.Program()[0].K = 99
	if f.program[0].K == 99 {
		t.Error("Program hands out the filter's own memory")
	}
}

// TestReadyMade checks the programs that are kept, and writes them with -update.
func TestReadyMade(t *testing.T) {
	t.Parallel()
	for _, arch := range syscalls.Arches() {
		program := assemble(arch, Options{})
		if *update {
			golden(t, "ready_"+arch.String()+".bpf", string(Filter{program: program}.Bytes()))
		} else if diff := cmp.Diff(program, block(readyMade(arch))); diff != "" {
			t.Errorf("%s: run the test with -update (-want +got):\n%s", arch, diff)
		}
		golden(t, "testdata/"+arch.String()+".txt", disassemble(program))
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: run the test with -update (-want +got):\n%s", name, diff)
	}
}

// TestLongJumps puts blocks beyond the reach of a conditional jump on either
// side, on both, and right at the edge.
func TestLongJumps(t *testing.T) {
	t.Parallel()
	long := func(n int, answer uint32) block {
		b := ret(answer)
		for range n - 1 {
			b = mask(0xffffffff, b)
		}
		return b
	}
	for _, lengths := range [][2]int{{1, 1}, {1, 300}, {300, 1}, {255, 255}, {255, 256}, {256, 255}, {256, 256}, {256, 300}, {300, 256}, {900, 900}} {
		for _, op := range []uint16{opEqual, opAbove, opAtLeast, opAnyBit} {
			whole := load(atNumber, branch(op, 4, long(lengths[0], 11), branch(opEqual, 77, long(300, 11), long(lengths[1], 22))))
			for _, number := range []uint32{0, 3, 4, 5, 8} {
				holds := map[uint16]bool{opEqual: number == 4, opAbove: number > 4, opAtLeast: number >= 4, opAnyBit: number&4 != 0}[op]
				want := uint32(22)
				if holds {
					want = 11
				}
				for _, program := range []block{whole, share(whole)} {
					if got, _, err := run(program, call{number: number}); err != nil || got != want {
						t.Errorf("%v, operation %#x, number %d: %d, want %d, error %v", lengths, op, number, got, want, err)
					}
				}
			}
		}
	}
}

// TestEveryPartlyDeniedCallIsChecked: a rule with arguments has a check, and a
// rule without has none.
func TestEveryPartlyDeniedCallIsChecked(t *testing.T) {
	t.Parallel()
	type checked struct {
		rule syscalls.Rule
		do   block
	}
	var all []checked
	for _, r := range syscalls.Rules() {
		all = append(all, checked{r, denyBlock(r)})
	}
	for _, r := range syscalls.LiveRules() {
		all = append(all, checked{r, liveBlock(r)})
	}
	for _, r := range syscalls.HeldRules() {
		all = append(all, checked{r, heldBlock(r, ret(unix.SECCOMP_RET_ALLOW))})
	}
	for _, c := range all {
		r, b := c.rule, c.do
		if partly := slices.ContainsFunc(b, func(in unix.SockFilter) bool { return in.K == unix.SECCOMP_RET_ALLOW }); partly != (r.Args != "") {
			t.Errorf("%s: the rule says %q, the program has %d instructions", r.Name, r.Args, len(b))
		}
	}
}
