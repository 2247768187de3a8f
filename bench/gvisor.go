package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	guestRuntime = "forkcell-gvisor"
	guestCell    = "guest"
	// guestBranches are made at once, of a guest of about 21 MB.
	guestBranches = 20
)

// holdsMemory is a program that fills some memory and answers how many pages it has
// touched.
const holdsMemory = `
import os
data = bytearray(12 << 20)
for i in range(0, len(data), 4096):
    data[i] = 1
os.mkfifo("/dev/shm/in"); os.mkfifo("/dev/shm/out")
if os.fork():
    os._exit(0)
os.setsid()
null = os.open("/dev/null", os.O_RDWR)
for fd in range(3):
    os.dup2(null, fd)
while True:
    with open("/dev/shm/in") as q:
        q.read()
    with open("/dev/shm/out", "w") as a:
        a.write(str(sum(data)))
`

// guests measures branches of a live cell of the runtime gvisor, through the daemon.
// Where the runtime was not built there is nothing to measure.
func (b *bench) guests(ctx context.Context, s shape) (_ []row, err error) {
	if _, err := os.Stat(filepath.Join(filepath.Dir(b.program), guestRuntime)); err != nil {
		progress("%v; make gvisor builds it", err)
		return nil, nil
	}
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	cell := map[string]any{"name": guestCell, "source": map[string]any{"path": b.tree(s)}, "runtime": "gvisor"}
	if err := d.do(ctx, "POST", "/v1/cells", cell, nil); err != nil {
		return nil, err
	}
	if err := d.do(ctx, "POST", "/v1/cells/"+guestCell+"/start", map[string]any{}, nil); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop(ctx, guestCell)) }()
	if err := d.inGuest(ctx, guestCell, "python3", "-c", holdsMemory); err != nil {
		return nil, err
	}
	one, err := d.guestOne(ctx)
	if err != nil {
		return nil, err
	}
	many, err := d.guestMany(ctx)
	return append(one, many...), err
}

// guestOne measures one branch: how long its source stood still, and how long it took
// until the branched program answered.
func (d *daemon) guestOne(ctx context.Context) ([]row, error) {
	var pauses, firsts, asked []time.Duration
	for range d.b.times(15, 6) {
		time.Sleep(rest)
		begin := time.Now()
		made, err := d.branchOf(ctx, guestCell, "guest-one", 1)
		if err != nil {
			return nil, err
		}
		firsts = append(firsts, time.Since(begin))
		pauses = append(pauses, time.Duration(made.PauseUS)*time.Microsecond)
		err = d.askGuest(ctx, made.Children[0].Cell)
		asked = append(asked, time.Since(begin))
		if err := errors.Join(err, d.remove(ctx, made)); err != nil {
			return nil, err
		}
	}
	const pauseLimit, firstLimit = 100 * time.Millisecond, 250 * time.Millisecond
	pause, first, answer := median(pauses), median(firsts), median(asked)
	return []row{
		limitRow("gvisor: the source stands still for a `branch`, at 21 MB", show(pause), "below 100 ms", pause < pauseLimit),
		limitRow("gvisor: a `branch` to the first answer of its runtime", show(first), "below 250 ms", first < firstLimit),
		{what: "gvisor: the same until a program of the branch has answered", own: show(answer), measured: show(answer)},
	}, nil
}

// guestMany measures many branches, each of which answers.
func (d *daemon) guestMany(ctx context.Context) ([]row, error) {
	var walls []time.Duration
	for range d.b.times(3, 1) {
		begin := time.Now()
		made, err := d.branchOf(ctx, guestCell, "guest-many", guestBranches)
		if err == nil {
			err = inParallel(guestBranches, warmWidth, func(i int) error { return d.askGuest(ctx, made.Children[i].Cell) })
		}
		walls = append(walls, time.Since(begin))
		if err := errors.Join(err, d.remove(ctx, made)); err != nil {
			return nil, err
		}
	}
	const limit = 4 * time.Second
	wall := median(walls)
	return []row{limitRow(fmt.Sprintf("gvisor: %d branches, a program of each answers", guestBranches), show(wall), "below 4 s", wall < limit)}, nil
}

// askGuest has the program of a branch answer.
func (d *daemon) askGuest(ctx context.Context, cell string) error {
	return d.inGuest(ctx, cell, "sh", "-c", "echo > /dev/shm/in; test $(cat /dev/shm/out) = 3072")
}

// inGuest executes a command, and fails unless it succeeds.
func (d *daemon) inGuest(ctx context.Context, cell string, command ...string) error {
	var doc struct {
		ExitCode *int `json:"exit_code"`
	}
	err := d.do(ctx, "POST", "/v1/cells/"+cell+"/exec", map[string]any{"command": command}, &doc)
	if err == nil && (doc.ExitCode == nil || *doc.ExitCode != 0) {
		err = fmt.Errorf("%s in %s: exit code %v", command[0], cell, doc.ExitCode)
	}
	return err
}
