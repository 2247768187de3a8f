package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

const crashStep = "APPLY_TEST_CRASH_STEP"

// crashHelper is a separate process that applies, and kills itself just
// before an effect.
func crashHelper(dir string) {
	left, err := strconv.Atoi(os.Getenv(crashStep))
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	d, err := fsx.OpenRoot(filepath.Join(dir, "applies", "a1"))
	if err == nil {
		to := finished()
		_, err = Execute(context.Background(), Plan{
			ID: "a1", Target: filepath.Join(dir, "target"), Ops: ops(start(), to), Links: to.links(), Owners: os.Geteuid() == 0,
		}, to, d, Options{Hook: func(string) error {
			if left--; left == -1 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			return nil
		}})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(4)
	}
	os.Exit(0)
}

// A kill at every effect in turn, then recovery: the target is as before or as
// after, never between.
func TestKillAtEveryStep(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	undone, done := 0, 0
	for n := 0; ; n++ {
		p := quickPlace(t, start())
		times := dirTimes(t, p.target)
		check(t, os.Mkdir(filepath.Join(p.journal, "a1"), 0o700))
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), crashDir+"="+filepath.Dir(p.target), crashStep+"="+strconv.Itoa(n))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) { //nolint:forcetypeassert // it is Linux
			t.Fatalf("step %d: %v\n%s", n, err, out)
		}
		j := p.open(t, "a1")
		for range 2 { // the second finds nothing to do
			back, recErr := Recover(context.Background(), p.target, j)
			check(t, recErr)
			noStaging(t, p.target)
			if back {
				undone++
				if got := dirTimes(t, p.target); got != times {
					t.Errorf("step %d: times of directories:\n%swere:\n%s", n, got, times)
				}
				same(t, fmt.Sprintf("killed at step %d", n), p.target, start())
			} else {
				done++
				same(t, fmt.Sprintf("killed at step %d", n), p.target, finished())
			}
		}
		_ = j.Close()
		if err == nil {
			break
		}
	}
	if undone < 20 || done < 20 {
		t.Errorf("%d runs were taken back, %d completed: the steps are not spread", undone/2, done/2)
	}
}

// crash is thrown by a hook: nothing after it happens, as if the process had
// ended there.
type crash struct{}

func crashing(n int) (hook func(string) error, hit *bool) {
	hit = new(bool)
	return func(string) error {
		if n--; n == -1 {
			*hit = true
			panic(crash{})
		}
		return nil
	}, hit
}

func catch(do func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, mine := r.(crash); !mine {
				panic(r)
			}
		}
	}()
	do()
}

// A recovery that is interrupted at any of its effects can be repeated.
func TestCrashDuringRecovery(t *testing.T) {
	t.Parallel()
	for first := 20; ; first += 9 {
		last := false
		for second := 0; ; second += 2 {
			p := quickPlace(t, start())
			hook, hit := crashing(first)
			catch(func() { _, _ = execute(t, p, start(), finished(), Options{Hook: hook}) })
			last = !*hit
			j := p.open(t, "a1")
			hook, hit = crashing(second)
			catch(func() { _, _ = recoverWith(context.Background(), p.target, j, Options{Hook: hook}) })
			back, err := Recover(context.Background(), p.target, j)
			check(t, err)
			want := finished()
			if back {
				want = start()
			}
			noStaging(t, p.target)
			same(t, fmt.Sprintf("crashed at %d, then at %d", first, second), p.target, want)
			_ = j.Close()
			if !*hit || last {
				break
			}
		}
		if last {
			return
		}
	}
}

// Changes of other programs after the crash stay, and files that cannot be put
// back are kept in the journal.
func TestForeignWorkAfterTheCrash(t *testing.T) {
	t.Parallel()
	p := newPlace(t, start())
	catch(func() {
		_, _ = execute(t, p, start(), finished(), Options{Hook: func(step string) error {
			if step == "apply.applied" {
				panic(crash{})
			}
			return nil
		}})
	})
	put := func(name, text string) {
		check(t, os.Remove(filepath.Join(p.target, name)))
		check(t, os.WriteFile(filepath.Join(p.target, name), []byte(text), 0o600))
	}
	put("edit", "edited by hand after the crash")
	check(t, os.WriteFile(filepath.Join(p.target, "gone"), []byte("made again"), 0o600))
	check(t, os.WriteFile(filepath.Join(p.target, "new", "mine"), []byte("in a new directory"), 0o600))
	j := p.open(t, "a1")
	defer func() { _ = j.Close() }()
	back, err := Recover(context.Background(), p.target, j)
	var conflicts *ConflictError
	if !back || !errors.As(err, &conflicts) || len(conflicts.Conflicts) != 3 {
		t.Fatalf("got %v, %v", back, err)
	}
	got := read(t, p.target)
	if got["edit"].Text != "edited by hand after the crash" || got["gone"].Text != "made again" ||
		got["new/mine"].Text != "in a new directory" {
		t.Errorf("the work of others: %+v, %+v, %+v", got["edit"], got["gone"], got["new/mine"])
	}
	kept := ""
	for _, x := range read(t, filepath.Join(p.journal, "a1", foreignDir)) {
		kept += x.Text + ";"
	}
	for _, want := range []string{"one;", "deleted;"} {
		if !strings.Contains(kept, want) {
			t.Errorf("%q is lost; kept is %q", want, kept)
		}
	}
	rest := start().without("edit", "gone")
	for path, x := range rest.plain() {
		if y := got.plain()[path]; x != y {
			t.Errorf("%q: want %+v, got %+v", path, x, y)
		}
	}
	if back, err := Recover(context.Background(), p.target, j); !back || err != nil {
		t.Errorf("once more: %v, %v", back, err)
	}
}

func TestRecoverRefusesAnotherDirectory(t *testing.T) {
	t.Parallel()
	p := newPlace(t, start())
	hook, _ := crashing(40)
	catch(func() { _, _ = execute(t, p, start(), finished(), Options{Hook: hook}) })
	check(t, os.Rename(p.target, p.target+".moved"))
	check(t, os.Mkdir(p.target, 0o755))
	j := p.open(t, "a1")
	defer func() { _ = j.Close() }()
	if _, err := Recover(context.Background(), p.target, j); !errors.Is(err, ErrTarget) {
		t.Errorf("another directory: %v", err)
	}
	check(t, os.Remove(p.target))
	if _, err := Recover(context.Background(), p.target, j); !errors.Is(err, ErrTarget) {
		t.Errorf("no directory: %v", err)
	}
	back, err := Recover(context.Background(), p.target+".moved", j)
	check(t, err)
	if !back {
		t.Error("not rolled back")
	}
	same(t, "recovered", p.target+".moved", start())
}

func TestJournalsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"cut":   `{"version":1,"intent":`,
		"newer": `{"version":2}`,
		"path":  `{"version":1,"ops":[{"path":"Li4veA=="}]}`,
		"unit":  `{"version":1,"units":[{"op":7,"slot":"0"}]}`,
	} {
		p := newPlace(t, start())
		catch(func() {
			_, _ = execute(t, p, start(), finished(), Options{Hook: func(step string) error {
				if step == "apply.applied" {
					panic(crash{})
				}
				return nil
			}})
		})
		check(t, os.WriteFile(filepath.Join(p.journal, "a1", journalFile), []byte(spoil), 0o600))
		j := p.open(t, "a1")
		if _, err := Recover(context.Background(), p.target, j); !errors.Is(err, errJournal) {
			t.Errorf("%s: %v", name, err)
		}
		_ = j.Close()
	}
}

// On another file system displaced things are copied, not moved.
func TestJournalElsewhere(t *testing.T) {
	t.Parallel()
	var shm, here unix.Stat_t
	if unix.Stat("/dev/shm", &shm) != nil || unix.Stat(os.TempDir(), &here) != nil || shm.Dev == here.Dev {
		t.Skip("no second file system")
	}
	elsewhere, err := os.MkdirTemp("/dev/shm", "apply")
	if err != nil {
		t.Skipf("no second file system: %v", err)
	}
	t.Cleanup(func() { openUp(elsewhere); _ = os.RemoveAll(elsewhere) })
	if unix.Setxattr(elsewhere, "user.note", []byte("x"), 0) != nil {
		t.Skip("the second file system has no attributes")
	}
	p := newPlace(t, start())
	p.journal = elsewhere
	_, err = execute(t, p, start(), finished(), Options{})
	check(t, err)
	same(t, "after the apply", p.target, finished())
	_, err = undo(t, p, "a1", Options{})
	check(t, err)
	same(t, "after the undo", p.target, start())
	for n := 30; ; n += 5 {
		hook, hit := crashing(n)
		catch(func() { _, _ = execute(t, p, start(), finished(), Options{Hook: hook}) })
		if !*hit {
			break
		}
		j := p.open(t, "a"+strconv.Itoa(p.seq))
		back, err := Recover(context.Background(), p.target, j)
		_ = j.Close()
		check(t, err)
		if !back {
			_, err = undo(t, p, "a"+strconv.Itoa(p.seq), Options{})
			check(t, err)
		}
		same(t, "recovered", p.target, start())
	}
}
