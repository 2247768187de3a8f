package native

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// TestRefillSoon: the end of a cell starts no process at once, and the ends of several
// cells start the missing ones together.
func TestRefillSoon(t *testing.T) {
	var delayed []func()
	p := &pool{
		start: func() (*process, error) { return nil, errors.New("not started") },
		later: func(f func()) { delayed = append(delayed, f) },
	}
	end, err := p.keep(6)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for range 2 {
		p.next()
		p.refillSoon()
	}
	if len(p.waiting) != 4 || len(delayed) != 1 {
		t.Fatalf("%d processes wait and %d calls are delayed, want 4 and 1", len(p.waiting), len(delayed))
	}
	delayed[0]()
	if len(p.waiting) != 6 {
		t.Errorf("%d processes wait after the delay, want 6", len(p.waiting))
	}
	p.refillSoon()
	if len(delayed) != 1 {
		t.Error("nothing is missing, and a call is delayed")
	}
}

// TestPooledCell: the mounts of a cell whose first process waits are made on the
// caller's thread, or on one of their own if they need it, and the caller's thread keeps
// its credentials and mount namespace.
func TestPooledCell(t *testing.T) {
	for name, opt := range map[string]Options{"by descriptor": {}, "by path": {ForceLegacyMounts: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, opt)
			end, err := f.native.Keep(1)
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			f.native.AwaitReady()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before := threadNow(t)
			s := f.Spec
			s.Args = []string{"sh", "-c", "echo made > made"}
			if o, err := f.Run(t.Context(), s, driver.Stdio{}); err != nil || o.Code != 0 {
				t.Fatalf("%+v, %v", o, err)
			}
			if after := threadNow(t); after != before {
				t.Errorf("the thread was %+v and is %+v", before, after)
			}
		})
	}
}

// TestSharedThread: a thread that others use gets no mount namespace.
func TestSharedThread(t *testing.T) {
	m := &maker{shared: true}
	if err := m.enterStage(nil); !errors.Is(err, errSharedThread) {
		t.Errorf("%v", err)
	}
}

// thread has what making mounts changes of a thread.
type thread struct {
	uid, gid     int
	capabilities capabilitySet
	mounts       uint64
}

func threadNow(t *testing.T) (now thread) {
	t.Helper()
	var st unix.Stat_t
	var err error
	if now.capabilities, err = capabilitySets(); err == nil {
		err = unix.Stat("/proc/thread-self/ns/mnt", &st)
	}
	if err != nil {
		t.Fatal(err)
	}
	now.uid, _ = unix.SetfsuidRetUid(-1)
	now.gid, _ = unix.SetfsgidRetGid(-1)
	now.mounts = st.Ino
	return now
}
