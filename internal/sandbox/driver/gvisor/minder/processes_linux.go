package minder

import (
	"bytes"
	"maps"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// The units of times and memory in /proc.
const (
	tick     = 10 * time.Millisecond
	pageSize = 4096
)

// maxArgs bounds what is shown of a command line, and maxProcesses the list.
const (
	maxArgs      = 4 << 10
	maxProcesses = 512
)

// processes lists what runs. A process that starts or ends meanwhile may be missed.
func processes() *protocol.GuestProcesses {
	var list protocol.GuestProcesses
	up := uptime()
	for _, pid := range numbers() {
		p, _, ok := readProcess(pid, up)
		if ok && len(list.List) < maxProcesses {
			list.List = append(list.List, p)
		}
	}
	return &list
}

func numbers() (list []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read counts
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

func uptime() time.Duration {
	text, _ := os.ReadFile("/proc/uptime")
	first, _, _ := bytes.Cut(text, []byte(" "))
	seconds, _ := strconv.ParseFloat(string(first), 64)
	return time.Duration(seconds * float64(time.Second))
}

// The fields of a stat file behind the name, which may hold anything.
const (
	statState = 0
	statPPID  = 1
	statSID   = 3
	statUser  = 11
	statKern  = 12
	statStart = 19
	statRSS   = 21
)

// readProcess returns a process, and when it was started: that together with its number
// is unique.
func readProcess(pid int, up time.Duration) (p protocol.GuestProcess, start int64, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return p, 0, false
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if open < 0 || end < open || len(fields) <= statRSS {
		return p, 0, false
	}
	at := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		return n
	}
	p = protocol.GuestProcess{
		PID: pid, PPID: int(at(statPPID)), SID: int(at(statSID)), State: string(fields[statState]),
		Age: up - time.Duration(at(statStart))*tick, CPU: time.Duration(at(statUser)+at(statKern)) * tick, RSS: at(statRSS) * pageSize,
	}
	var st unix.Stat_t
	if unix.Stat(dir, &st) == nil {
		p.UID = int(st.Uid)
	}
	p.Args = arguments(dir, text[open+1:end])
	return p, at(statStart), true
}

// arguments are those of a process, or its name in brackets.
func arguments(dir string, name []byte) [][]byte {
	text, _ := os.ReadFile(dir + "/cmdline")
	text = bytes.TrimSuffix(text[:min(len(text), maxArgs)], []byte{0})
	if len(text) == 0 {
		return [][]byte{[]byte("[" + string(name) + "]")}
	}
	return bytes.Split(text, []byte{0})
}

// runningProcesses are the processes but this one that have not ended, with their starts.
func runningProcesses() map[int]int64 {
	list := map[int]int64{}
	for _, pid := range numbers() {
		if p, start, ok := readProcess(pid, 0); ok && pid != 1 && p.State != "Z" {
			list[pid] = start
		}
	}
	return list
}

// terminate asks every process but this one to end, waits for them, and returns 1 if
// all that it asked have ended.
func terminate(milliseconds uint32) []byte {
	deadline := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	asked := runningProcesses()
	for pid := range asked {
		_ = unix.Kill(pid, unix.SIGTERM) // one that has ended needs no signal
		_ = unix.Kill(pid, unix.SIGCONT) // one that was stopped must go on to hear it
	}
	for {
		left := runningProcesses()
		maps.DeleteFunc(left, func(pid int, start int64) bool {
			was, ok := asked[pid]
			return !ok || was != start
		})
		switch {
		case len(left) == 0:
			return []byte{1}
		case time.Now().After(deadline):
			return []byte{0}
		}
		<-time.After(time.Millisecond)
	}
}
