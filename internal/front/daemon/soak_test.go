package daemon_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
)

// soakLength is the length of TestSoak.
var soakLength = flag.Duration("soak", 10*time.Second, "how long TestSoak sends requests")

const (
	soakCallers = 4
	// soakPause is the time between two actions of a caller: the soak leaves the
	// processors to others.
	soakPause = 300 * time.Millisecond
	soakSeed  = 12
)

// TestSoak lets several callers do everything at once, with a daemon in a process of
// its own, and looks at the end for what is left: descriptors, memory, goroutines,
// processes, control groups, mounts and directories. The order of actions follows from
// the seed; which of them meet follows from the machine.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := newSoak(t)
	s.load(*soakLength / 4) // what is made once is made now
	before := s.holds()
	s.load(*soakLength - *soakLength/4)
	var verified api.ReceiptVerifyResult
	s.want(200, &verified, "POST", "/v1/receipts/verify", api.ReceiptVerifyRequest{All: true})
	if !verified.OK {
		t.Errorf("%+v", verified.Problems)
	}
	s.settles(before)
	s.nothingLeft()
	s.terminate()
}

// soak is a daemon under load.
type soak struct {
	*daemonProcess
	mu          sync.Mutex
	supervisors []started // processes
	actions     map[string]int
	callers     []*soakCaller
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{daemonProcess: &daemonProcess{testDaemon: newDaemon(t)}, actions: map[string]int{}}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	for i := range soakCallers {
		s.callers = append(s.callers, &soakCaller{soak: s, name: fmt.Sprintf("s%d", i), random: rand.New(rand.NewPCG(soakSeed, uint64(i)))})
	}
	s.launch("127.0.0.1:0")
	s.cell("base")
	return s
}

// load lets the callers act for so long.
func (s *soak) load(length time.Duration) {
	s.Helper()
	var callers sync.WaitGroup
	end := time.Now().Add(length)
	for _, c := range s.callers {
		callers.Go(func() {
			pace := time.NewTicker(soakPause)
			defer pace.Stop()
			for time.Now().Before(end) && !s.Failed() {
				c.act()
				<-pace.C
			}
		})
	}
	callers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Logf("%v", s.actions)
}

// held is what the daemon holds.
type held struct {
	Goroutines  int    `json:"goroutines"`
	Heap        uint64 `json:"heap"`
	descriptors int
	children    int
	files       map[string]int // what the descriptors are, for the error
}

// holds asks the daemon, after a collection, and the kernel. The daemon keeps some
// manifests of states open, until the states are freed. Connections of the database do
// not count.
func (s *soak) holds() (h held) {
	s.Helper()
	s.want(200, nil, "POST", "/v1/gc", api.GCBody{Removed: true})
	s.client.CloseIdleConnections()
	if err := s.cmd.Process.Signal(unix.SIGUSR1); err != nil {
		s.Fatal(err)
	}
	line, err := s.said.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	if err != nil {
		s.Fatalf("%q: %v", line, err)
	}
	proc := filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid))
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		s.Fatal(err)
	}
	mounts, err := os.ReadFile(filepath.Join(proc, "mountinfo"))
	if err != nil {
		s.Fatal(err)
	}
	if strings.Contains(string(mounts), s.home) {
		s.Errorf("a mount is left:\n%s", mounts)
	}
	h.descriptors, h.children = len(open), s.childProcesses(proc)
	h.files = s.openFiles()
	for name, n := range h.files {
		if strings.Contains(name, "/forkcell.db") {
			h.descriptors -= n // connections, of which the store keeps a bounded number
		}
	}
	return h
}

// openFiles names the open files of the daemon, each with the number of its
// descriptors.
func (s *soak) openFiles() map[string]int {
	s.Helper()
	list, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.cmd.Process.Pid))
	if err != nil {
		s.Fatal(err)
	}
	names := map[string]int{}
	for _, fd := range list {
		name, _ := os.Readlink(fd) // one that was just closed has none
		names[regexp.MustCompile(`\d+`).ReplaceAllString(name, "N")]++
	}
	return names
}

// childProcesses counts the children of the daemon.
func (s *soak) childProcesses(proc string) (n int) {
	s.Helper()
	lists, err := filepath.Glob(filepath.Join(proc, "task", "*", "children"))
	if err != nil {
		s.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // a thread that has ended
			s.Fatal(err)
		}
		n += len(strings.Fields(string(text)))
	}
	return n
}

// settles waits until the daemon holds as much as before. Its heap may grow by what it
// remembers of runs, which is bounded: by the half, and 4 MiB.
func (s *soak) settles(before held) {
	s.Helper()
	const slack = 3 // a connection that is just being closed, a process that is being made ready
	for limit := time.Now().Add(time.Minute); ; <-time.After(time.Second) {
		now := s.holds()
		if now.Goroutines <= before.Goroutines+slack && now.descriptors <= before.descriptors+slack && now.children <= before.children+slack &&
			now.Heap <= before.Heap*3/2+4<<20 {
			s.Logf("%+v, before %+v", now, before)
			return
		}
		if time.Now().After(limit) {
			s.Fatalf("%+v\nbefore %+v", now, before)
		}
	}
}

// nothingLeft removes the last cell and looks for what its and other runs have left.
func (s *soak) nothingLeft() {
	s.Helper()
	s.want(204, nil, "DELETE", "/v1/cells/base", nil)
	s.holds()
	var cells api.List[api.CellInfo]
	s.want(200, &cells, "GET", "/v1/cells", nil)
	if len(cells.Items) > 0 {
		s.Errorf("cells are left: %+v", cells.Items)
	}
	for _, dir := range []string{"pending", "layers", "live", "sockets", "applies", "uploads"} {
		names, err := os.ReadDir(filepath.Join(s.home, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || len(names) > 0 {
			s.Errorf("%s: %v, %v", dir, names, err)
		}
	}
	limit := time.Now().Add(30 * time.Second) // one that has answered may still be ending
	for _, p := range s.supervisors {
		for p.exists() {
			if time.Now().After(limit) {
				s.Errorf("the supervisor %d is left", p.pid)
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	s.noControlGroups()
}

// noControlGroups looks for control groups of the runs.
func (s *soak) noControlGroups() {
	s.Helper()
	runs := map[string]bool{}
	for _, r := range s.allRuns() {
		runs[r.RunID] = true
		if r.State != "ended" {
			s.Errorf("%+v", r)
		}
	}
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a group of another test that has just ended
		}
		if id, ok := strings.CutPrefix(d.Name(), "forkcell-"); ok && d.IsDir() && runs[id] {
			s.Errorf("%s is left", path)
		}
		return nil
	})
	if err != nil {
		s.Error(err)
	}
	s.Logf("%d runs, %d live cells", len(runs), len(s.supervisors))
}

// report writes what this process holds to stdout, as a line of JSON.
func report() error {
	runtime.GC()
	runtime.GC() // what finalizers have freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return json.NewEncoder(os.Stdout).Encode(held{Goroutines: runtime.NumGoroutine(), Heap: m.HeapAlloc})
}
