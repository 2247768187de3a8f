package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

var (
	_ driver.Saver    = (*Cell)(nil)
	_ driver.Restorer = (*Driver)(nil)
)

// imagePath is where a saved guest is shown to the runtime that restores it. The guest
// has an empty directory there.
const imagePath = "/.forkcell/image"

// The files of a saved guest: gVisor's, and what only this package knows.
const guestFile = "guest.json"

func imageFiles() []string { return []string{"checkpoint.img", "pages_meta.img", "pages.img"} }

// savedGuest describes a guest, so that it can be restored.
type savedGuest struct {
	// LastID is the number of the last command: the restored guest still has some.
	LastID uint32 `json:"last_id"`
	// Runtime and Program are the digests of the runtime and of the guest's first
	// process: another version is not trusted to understand the rest.
	Runtime string `json:"runtime"`
	Program string `json:"program"`
	// Shape is the digest of the guest's user, rights and paths that can be written.
	Shape string `json:"shape"`
	// OpenFiles is the limit that its processes have, or 0.
	OpenFiles int64 `json:"open_files,omitempty"`
}

// Save implements driver.Saver.
func (c *Cell) Save(ctx context.Context, dir string, still func() error) (saved driver.Saved, err error) {
	c.saving.Lock()
	// What is in the cell is removed whatever happens, while the caller goes on; if that
	// cannot go on, because the disk is full, before it is told.
	defer func() {
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			defer c.saving.Unlock()
			c.forget()
		}()
		if err != nil {
			<-removed
		}
	}()
	if c.leftover != nil {
		if c.forget(); c.leftover != nil {
			return saved, c.leftover
		}
	}
	// Large files are read for it, which takes as long as saving.
	identified := make(chan func() (savedGuest, error), 1)
	go func() {
		guest, err := c.plan.identify()
		identified <- func() (savedGuest, error) { return guest, err }
	}()
	if err := c.quiesce(ctx); err != nil {
		return saved, fmt.Errorf("save: %w", err)
	}
	saved.Pause, err = c.stand(ctx, still)
	c.mu.Lock()
	last := c.lastID
	c.mu.Unlock()
	err = errors.Join(err, c.speak())
	guest, failed := (<-identified)()
	guest.LastID, err = last, errors.Join(err, failed)
	if err == nil {
		saved.Bytes, err = c.keep(dir, guest)
	}
	return saved, err
}

// forget removes what was saved from the cell. The caller holds saving.
func (c *Cell) forget() {
	c.leftover = c.control(context.Background(), "forget", driver.Stdio{})
}

// stand has the runtime stop the guest, calls still, and has it saved. Then the guest
// goes on, in whatever way the runtime's process has ended.
func (c *Cell) stand(ctx context.Context, still func() error) (pause time.Duration, err error) {
	input, tell := io.Pipe()
	var begin time.Time
	captured := make(chan error, 1)
	said := &once{text: "still\n", do: func() {
		begin = time.Now()
		go func() {
			err := errors.Join(still(), ctx.Err())
			captured <- err
			if err == nil {
				_, err = io.WriteString(tell, "save\n")
			}
			_ = tell.CloseWithError(err) // nil is the end of the input
		}()
	}}
	err = c.control(context.WithoutCancel(ctx), "save", driver.Stdio{In: input, Out: said})
	err = c.goOn(ctx, err)
	_ = input.Close() // for who still wants to tell it something
	if begin.IsZero() {
		return 0, errors.Join(err, errors.New("the guest did not stand still"))
	}
	return time.Since(begin), errors.Join(<-captured, err)
}

// goOn returns the error of a process that stopped and saved the guest. If it was killed
// in the middle it has left the guest standing, so another one lets the guest go on.
func (c *Cell) goOn(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	failed := c.control(context.WithoutCancel(ctx), "resume", driver.Stdio{})
	if failed == nil {
		return err
	}
	// Mostly the guest was killed: then the runtime ends, too.
	select {
	case <-c.done:
		return errors.Join(driver.ErrEnded, err)
	case <-time.After(endTime):
		return errors.Join(err, failed)
	}
}

// endTime is how long it may take until a guest that does not answer has ended.
const endTime = 10 * time.Second

// once calls a function when a text was written.
type once struct {
	text string
	do   func()
	seen bool
}

func (o *once) Write(p []byte) (int, error) {
	if !o.seen && string(p) == o.text {
		o.seen = true
		o.do()
	}
	return len(p), nil
}

// control has a command of the runtime's executed beside the guest.
func (c *Cell) control(ctx context.Context, name string, stdio driver.Stdio) error {
	cmd := c.plan.runtime
	cmd.Args = []string{runtimePath, name, c.plan.state}
	var said limitedText
	stdio.Err = &said
	out, err := c.outer.Exec(ctx, cmd, stdio)
	if err == nil && out.Code != 0 {
		err = said.failure(out.Code)
	}
	if err != nil {
		return fmt.Errorf("%s the guest: %w", name, err)
	}
	return nil
}

// keep copies what was saved out of the cell.
func (c *Cell) keep(dir string, guest savedGuest) (total int64, err error) {
	for _, name := range imageFiles() {
		n, err := c.keepFile(name, filepath.Join(dir, name))
		if err != nil {
			return 0, fmt.Errorf("save %s: %w", name, err)
		}
		total += n
	}
	text, err := json.Marshal(guest)
	if err != nil {
		return 0, err
	}
	return total, os.WriteFile(filepath.Join(dir, guestFile), text, 0o600)
}

func (c *Cell) keepFile(name, to string) (int64, error) {
	opener, ok := c.outer.(driver.Opener)
	if !ok {
		return 0, errors.New("the cell opens no files")
	}
	from, err := opener.Open(c.plan.state + "/image/" + name)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	// A pipe in its place would have no end.
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, errors.Join(err, errors.New("it is not a regular file"))
	}
	// A hole of any length takes nothing in the cell, and all of it in the copy.
	if most := mostMemory(); info.Size() > most {
		return 0, fmt.Errorf("it has %d bytes, and no guest more than %d of memory", info.Size(), most)
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(file, io.LimitReader(from, info.Size()))
	return n, errors.Join(err, file.Close())
}

// mostMemory returns how many bytes of memory a guest can have, whatever its limits: those
// of the host, and what may be swapped.
func mostMemory() int64 {
	var host unix.Sysinfo_t
	_ = unix.Sysinfo(&host) // it takes a pointer, and no more
	return int64(host.Totalram+host.Totalswap) * int64(host.Unit)
}

// identify returns the digests of the programs and of the shape of a guest.
func (p *plan) identify() (g savedGuest, err error) {
	g.Shape, g.OpenFiles = p.shape, p.guest.OpenFiles
	if g.Runtime, err = p.digests.of(p.runtimeFile); err != nil {
		return g, err
	}
	g.Program, err = p.digests.of(p.programFile)
	return g, err
}

// restoredSockets says what the guest's kernel does with the sockets of a saved guest.
const restoredSockets = "listening ones listen again, connections were reset"

// Restore implements driver.Restorer.
func (d *Driver) Restore(ctx context.Context, s driver.Spec, dir string) (driver.Cell, error) {
	p, err := d.plan(s)
	if err != nil {
		return nil, err
	}
	guest, err := p.match(dir)
	if err == nil {
		err = p.keepOpenFiles(&s, guest.OpenFiles)
	}
	if err != nil {
		return nil, fault.At("restore", err)
	}
	p.runtime.Args = append(p.runtime.Args, imagePath)
	p.outer.Mounts.Binds = append(p.outer.Mounts.Binds, mount.Bind{Target: imagePath, Source: dir, ReadOnly: true, Owned: true})
	outer, err := d.native.Start(ctx, p.outer)
	if err != nil {
		return nil, err
	}
	c := newCell(outer, p)
	c.controls.Sockets = restoredSockets
	c.follow(guest.LastID)
	if err := c.wake(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// match reads what is known of a saved guest, and refuses one of other programs.
func (p *plan) match(dir string) (guest savedGuest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, guestFile))
	if err != nil {
		return guest, err
	}
	if err := json.Unmarshal(text, &guest); err != nil {
		return guest, fmt.Errorf("%s: %w", guestFile, err)
	}
	here, err := p.identify()
	if err != nil {
		return guest, err
	}
	switch {
	case here.Runtime != guest.Runtime || here.Program != guest.Program:
		return guest, &driver.SavedError{Reason: "it was saved by another version of forkcell or " + runtimeName}
	case here.Shape != guest.Shape:
		return guest, &driver.SavedError{
			Reason: "it was saved with another user, other rights, or other paths that can be written",
			Remedy: "a policy of its own must have the include_workdir and read_write of the source's",
		}
	}
	return guest, nil
}

// keepOpenFiles refuses another limit of open files than a saved guest has: nothing in
// the guest may change that of processes that are there.
func (p *plan) keepOpenFiles(s *driver.Spec, saved int64) error {
	if s.Limits.OpenFiles == saved {
		return nil
	}
	const reason = "the processes of a saved guest keep the limit that they were started with"
	if !s.Guard.AllowDegraded {
		return &driver.UnenforceableError{Control: "limit open_files", Reason: reason, Remedy: "leave the limit out, or start the source with it"}
	}
	p.degraded = append(p.degraded, fmt.Sprintf("limit open_files is not enforced as %d: %s", s.Limits.OpenFiles, reason))
	p.guest.OpenFiles, p.limits.OpenFiles = saved, saved
	return nil
}

// wake lets a restored guest speak, and waits for its first answer, which comes when its
// memory was read, however long that takes.
func (c *Cell) wake(ctx context.Context) error {
	err := c.conn.Write(frames.Frame{Kind: frames.Renew})
	if err == nil {
		_, err = c.ask(ctx, frames.List, nil, math.MaxInt64)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fault.At("restore", ctx.Err())
	}
	<-c.ended
	return c.startError()
}
