package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// work runs the jobs of the plan, one after the other, and reports.
func work() error {
	line, err := openLine("/dev/ttyS1")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(planPath)
	if err != nil {
		return err
	}
	var jobs []job
	if err := json.Unmarshal(data, &jobs); err != nil {
		return err
	}
	jobs = jobsOf(jobs, os.Getenv(whoVariable) == who(true))
	w := &writer{out: line}
	if err := w.write(hello()); err != nil {
		return err
	}
	for _, j := range jobs {
		if err := runJob(w, j); err != nil {
			return fmt.Errorf("job %s: %w", j.Name, err)
		}
	}
	if err := w.write(record{Kind: kindBye, Jobs: len(jobs)}); err != nil {
		return err
	}
	// The machine is switched off next: nothing may be left in the line.
	return errors.Join(unix.IoctlSetInt(int(line.Fd()), unix.TCSBRK, 1), line.Close())
}

// openLine opens a serial line so that bytes arrive as they are.
func openLine(name string) (*os.File, error) {
	line, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(line.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	return line, unix.IoctlSetTermios(int(line.Fd()), unix.TCSETS, t)
}

func hello() record {
	r := record{Kind: kindHello}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		r.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	if abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); errno == 0 {
		r.Landlock = int(abi)
	}
	return r
}

// runJob runs one job. Only a broken line is an error: how the job went is in
// the report.
func runJob(w *writer, j job) error {
	if err := w.write(record{Kind: kindBegin, Job: j.Name}); err != nil {
		return err
	}
	out := &pieces{w: w, job: j.Name}
	cmd := j.command()
	cmd.Stdout, cmd.Stderr = out, out
	begin := time.Now()
	err := cmd.Start()
	if err == nil {
		// A test binary ends itself first, and says where it hung.
		timer := time.AfterFunc(j.Limit+30*time.Second, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		timer.Stop()
	}
	end := record{Kind: kindEnd, Job: j.Name, Millis: time.Since(begin).Milliseconds()}
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		end.Code = exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			end.Error = "killed: " + status.Signal().String()
		}
	} else if err != nil {
		end.Code, end.Error = -1, err.Error()
	}
	if out.err != nil {
		return out.err
	}
	return w.write(end)
}

// pieces sends what a job writes, in pieces that fit into a record.
type pieces struct {
	mu  sync.Mutex
	w   *writer
	job string
	err error
}

const pieceSize = 16 << 10

func (p *pieces) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for rest := data; len(rest) > 0 && p.err == nil; {
		n := min(len(rest), pieceSize)
		p.err = p.w.write(record{Kind: kindOutput, Job: p.job, Data: rest[:n]})
		rest = rest[n:]
	}
	return len(data), p.err
}
