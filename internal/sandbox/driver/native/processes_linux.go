package native

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// seenProcess is a process as the host's /proc shows it.
type seenProcess struct {
	driver.Process
	parent  int    // on the host
	session int    // on the host
	ticks   uint64 // when it started; see startTime
	levels  int    // of pid namespaces that it is in
}

// ticksPerSecond is the unit of times in /proc: the same on every Linux that Go
// runs on.
const ticksPerSecond = 100

// maxCmdline bounds what is shown of a command line.
const maxCmdline = 4 << 10

// Processes lists what runs in the cell, by the numbers inside. Every process
// of a pid namespace descends from its first one, so this needs no right but to
// read /proc. One that starts or ends meanwhile may be missed.
func (c *Cell) Processes() ([]driver.Process, error) {
	seen, err := c.processes()
	list := make([]driver.Process, len(seen))
	for i, p := range seen {
		list[i] = p.Process
	}
	return list, err
}

func (c *Cell) processes() ([]seenProcess, error) {
	seen, err := lookFrom(c.pid, c.helper.is)
	if err != nil || !c.isAlive() { // else it may be about another process
		return nil, err
	}
	if k := c.copied.Load(); k != nil { // its parent is the template's
		more, err := lookFrom(k.pid, c.helper.is)
		if err != nil {
			return nil, err
		}
		if k.isAlive() {
			maps.Copy(seen, more)
		}
	}
	boot, err := bootTime()
	if err != nil {
		return nil, err
	}
	var list []seenProcess
	numbers := map[int]int{}
	for pid, p := range seen {
		if !c.describe(p, boot) {
			continue
		}
		numbers[pid] = p.PID
		list = append(list, *p)
	}
	if first, ok := seen[c.pid]; ok {
		// The copies of a template are below it.
		list = slices.DeleteFunc(list, func(p seenProcess) bool { return p.levels > first.levels })
	}
	for i := range list {
		list[i].PPID = numbers[list[i].parent] // 0: the parent is outside
	}
	slices.SortFunc(list, func(a, b seenProcess) int { return a.PID - b.PID })
	return list, nil
}

// sight is a look at processes.
type sight struct {
	skip  func(pid int) bool // those that are left out, with what is below them
	stats map[int]*seenProcess
}

// lookFrom returns a process and those below it, by their numbers. On a kernel that does not
// list the children of a process, it looks at every process of the host.
func lookFrom(pid int, skip func(pid int) bool) (map[int]*seenProcess, error) {
	s := sight{skip, map[int]*seenProcess{}}
	p, err := readStat(pid)
	if err == nil {
		s.stats[pid] = p
		if listsChildren() == nil {
			err = s.below(pid)
		} else {
			err = s.search(pid)
		}
	}
	if err = unlessEnded(err); err != nil {
		err = fmt.Errorf("list processes: %w", err)
	}
	return s.stats, err
}

// below looks at the processes below one.
func (s *sight) below(pid int) error {
	f, _, err := familyOf(pid)
	if err != nil {
		return err
	}
	for _, child := range f.children {
		if s.stats[child] != nil || s.skip(child) {
			continue
		}
		p, err := readStat(child)
		if err != nil || p.parent != pid {
			continue // it has ended, or is another process
		}
		s.stats[child] = p
		if err := s.below(child); err != nil {
			return err
		}
	}
	return nil
}

// search looks for the processes below one among all of the host.
func (s *sight) search(root int) error {
	all, err := hostStats()
	if err != nil {
		return err
	}
	for pid, p := range all {
		at := pid
		// A chain without end would be numbers reused under our eyes.
		for range all {
			next := all[at]
			if at == root || next == nil || s.skip(at) {
				break
			}
			at = next.parent
		}
		if at == root {
			s.stats[pid] = p
		}
	}
	return nil
}

// hostStats reads the stat file of every process of the host that can be seen.
func hostStats() (map[int]*seenProcess, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	stats := map[int]*seenProcess{}
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if p, err := readStat(pid); err == nil { // else it has ended
			stats[pid] = p
		}
	}
	return stats, nil
}

func readStat(pid int) (*seenProcess, error) {
	data, err := readProc(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	return parseStat(pid, data)
}

// parseStat takes the fields after the name, which stands in parentheses and may
// hold anything.
func parseStat(pid int, data []byte) (*seenProcess, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return nil, errors.New("unexpected contents")
	}
	f := strings.Fields(string(data[end+1:]))
	const first, rss = 3, 24
	if len(f) <= rss-first {
		return nil, errors.New("unexpected contents")
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(f[field-first], 10, 64)
		return n
	}
	return &seenProcess{parent: int(number(4)), session: int(number(6)), ticks: uint64(number(22)), Process: driver.Process{
		HostPID: pid, State: f[0],
		CPU: time.Duration(number(14)+number(15)) * time.Second / ticksPerSecond, RSS: number(rss) * int64(os.Getpagesize()),
		Args: []string{"[" + string(data[open+1:end]) + "]"},
	}}, nil
}

// describe fills in what the stat file does not tell; false means that the
// process has ended.
func (c *Cell) describe(p *seenProcess, boot time.Time) bool {
	dir := fmt.Sprintf("/proc/%d", p.HostPID)
	status, err := readProc(dir + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		f := strings.Fields(value)
		if len(f) == 0 {
			continue
		}
		switch key {
		case "NSpid":
			p.PID, _ = strconv.Atoi(f[len(f)-1])
			p.levels = len(f)
		case "NSsid":
			p.SID, _ = strconv.Atoi(f[len(f)-1])
		case "Uid":
			uid, _ := strconv.Atoi(f[0])
			p.UID = insideID(c.id, uid)
		}
	}
	p.Started = boot.Add(time.Duration(p.ticks) * time.Second / ticksPerSecond)
	if args := cmdline(dir); len(args) > 0 {
		p.Args = args
	}
	return p.PID != 0
}

// insideID returns a host id as the cell sees it.
func insideID(id protocol.Identity, uid int) int {
	if id.Root && uid >= idBase && uid < idBase+idCount {
		return uid - idBase
	}
	return uid
}

func cmdline(dir string) []string {
	f, err := os.Open(dir + "/cmdline")
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxCmdline))
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}

// bootTime is when the clock of the start times began.
func bootTime() (time.Time, error) {
	data, err := readProc("/proc/stat")
	if err != nil {
		return time.Time{}, fmt.Errorf("boot time: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return time.Unix(seconds, 0).UTC(), err
		}
	}
	return time.Time{}, errors.New("boot time: /proc/stat has none")
}
