package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// runDocument has the fields of run --json that the cases need.
type runDocument struct {
	ChangedFiles int    `json:"changed_files"`
	Decision     string `json:"decision"`
	Timings      struct {
		Seal   int64 `json:"seal_us"`
		Decide int64 `json:"decide_us"`
	} `json:"timings"`
}

// measurement is one case, with the trees that it reads itself.
type measurement struct {
	what    string
	trees   []shape
	measure func(context.Context) ([]row, error)
}

// cases are in an order that imports each tree once.
func (b *bench) cases() []measurement {
	small, medium, big := shapes()
	of := func(measure func(context.Context, shape) ([]row, error), s shape) func(context.Context) ([]row, error) {
		return func(ctx context.Context) ([]row, error) { return measure(ctx, s) }
	}
	return []measurement{
		{"import against cp -a", []shape{medium}, of(b.imports, medium)},
		{"memory of a large import", []shape{big}, of(b.memory, big)},
		{"seal and decide against cp, sync and rsync", []shape{medium}, of(b.against, medium)},
		{"seal and decide by size of the tree", []shape{small}, func(ctx context.Context) ([]row, error) { return b.bySize(ctx, small, big) }},
		{"fork by size of the tree", nil, func(ctx context.Context) ([]row, error) { return b.forks(ctx, small, medium, big) }},
		{"1,000 undecided runs by size of the tree", []shape{small, big}, func(ctx context.Context) ([]row, error) { return b.undecided(ctx, small, big) }},
		{"large files, many changes, many files", nil, of(b.scale, big)},
		{"the start of the program against an empty one", nil, b.start},
		{"a run of true against bwrap", nil, of(b.runTrue, medium)},
		{"exec in a live cell against bwrap", nil, of(b.live, small)},
		{"sessions of agents", []shape{small}, of(b.sessions, small)},
		{"network: requests through an inspecting rule", nil, b.requests},
		{"network: the program of a connection", nil, b.programs},
		{"network: 1,000 connections at once", nil, b.connections},
		{"network: other proxies that inspect", nil, b.proxies},
		{"network: set-up against none", nil, b.setUp},
		{"network: memory of an idle cell against none", nil, b.idle},
		{"100 forks that run true against bwrap", nil, of(b.hundred, medium)},
		{"daemon: a run of true against bwrap", []shape{small}, of(b.daemonRun, small)},
		{"daemon: a cell is shown", []shape{small}, of(b.daemonGet, small)},
		{"daemon: exec in a live cell against bwrap", []shape{small}, of(b.daemonExec, small)},
		{"daemon: 100 forks that run true against bwrap", []shape{small}, of(b.daemonHundred, small)},
		{"daemon: pages of the review site after many runs", []shape{small}, of(b.daemonPages, small)},
		{"daemon: branches of a warm interpreter against bare forks", []shape{small}, of(b.warm, small)},
		{"daemon: branches of a cell of the runtime gvisor", []shape{small}, of(b.guests, small)},
		{"daemon: a steady load", []shape{small}, of(b.daemonLoad, small)},
		{"daemon: many live cells", []shape{small}, of(b.daemonIdle, small)},
	}
}

// all measures what was asked for.
func (b *bench) all(ctx context.Context) (rows []row, err error) {
	cases := slices.DeleteFunc(b.cases(), func(m measurement) bool { return !strings.Contains(m.what, b.only) })
	if len(cases) == 0 {
		return nil, fmt.Errorf("no case has %q in its name", b.only)
	}
	built := map[string]bool{}
	for _, m := range cases {
		for _, s := range m.trees {
			if built[s.name] {
				continue
			}
			built[s.name] = true
			progress("building a tree of %d files", s.files())
			if err := s.build(b.tree(s)); err != nil {
				return nil, err
			}
		}
	}
	defer func() {
		if b.site != nil {
			err = errors.Join(err, b.site.server.Close())
		}
		if b.daemon != nil {
			err = errors.Join(err, b.daemon.end())
		}
	}()
	for _, m := range cases {
		progress("%s", m.what)
		if err := b.settle(ctx); err != nil {
			return nil, err
		}
		r, err := m.measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.what, err)
		}
		rows = append(rows, r...)
	}
	return rows, nil
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }

// imports alternates which side goes first: the second reads a warmer cache. No
// case deletes anything before the end: an ext4 without a journal searches long
// for inodes that were not freed in the last minutes, and the next measurement pays for them.
func (b *bench) imports(ctx context.Context, s shape) ([]row, error) {
	var own, plain, durable []time.Duration
	forkcell := func(i int) error {
		name := fmt.Sprintf("import%d", i)
		took, err := b.forkcell(ctx, 0, nil, "--json", "init", name, "--from", b.tree(s))
		own = append(own, took)
		return errors.Join(err, b.settle(ctx))
	}
	peer := func(i int) error {
		to := filepath.Join(b.work, fmt.Sprintf("copy%d", i))
		took, err := b.peer(ctx, "cp", "-a", b.tree(s), to)
		if err != nil {
			return err
		}
		flush, err := b.peer(ctx, "sync", "-f", to)
		plain, durable = append(plain, took), append(durable, took+flush)
		return errors.Join(err, b.settle(ctx))
	}
	for i := range b.times(8, 4) {
		first, second := forkcell, peer
		if i%2 == 1 {
			first, second = peer, forkcell
		}
		if err := errors.Join(first(i), second(i)); err != nil {
			return nil, err
		}
	}
	// One cell is kept for the cases that follow.
	if _, err := b.forkcell(ctx, 0, nil, "--json", "rename", "import0", s.name); err != nil {
		return nil, err
	}
	return []row{
		ratioRow(fmt.Sprintf("import %s files (init)", number(s.files())), "`cp -a`", median(own), median(plain), 1.5),
		infoRow("the same, with a peer that is as durable", "`cp -a` + `sync -f`", median(own), median(durable)),
	}, nil
}

func (b *bench) memory(ctx context.Context, s shape) ([]row, error) {
	took, peak, err := peakOf(b.command(ctx, b.work, b.program, "--quiet", "init", s.name, "--from", b.tree(s)))
	if err != nil {
		return nil, err
	}
	return []row{limitRow(fmt.Sprintf("peak memory while importing %s files (in %s)", number(s.files()), show(took)),
		fmt.Sprintf("%.1f MiB", float64(peak)/(1<<20)), "below 64 MiB", peak < 64<<20)}, b.settle(ctx)
}

// failing runs the changes in a cell and has them restored.
func (b *bench) failing(ctx context.Context, cell string) (sealDecide, whole time.Duration, err error) {
	if err := b.settle(ctx); err != nil {
		return 0, 0, err
	}
	var doc runDocument
	took, err := b.forkcell(ctx, 1, &doc, "--json", "--quiet", "run", "--restore-on-fail", cell, "--", "sh", "-c", changes)
	if err != nil {
		return 0, 0, err
	}
	if doc.ChangedFiles != 175 || doc.Decision != "restored" {
		return 0, 0, fmt.Errorf("the run on %s made %d changes and was %s, want 175 and restored", cell, doc.ChangedFiles, doc.Decision)
	}
	return microseconds(doc.Timings.Seal + doc.Timings.Decide), took, nil
}

// against compares with the checkpoint and restore that a script would do.
func (b *bench) against(ctx context.Context, s shape) ([]row, error) {
	var own, ownWhole, peer, peerWhole []time.Duration
	for i := range b.times(9, 3) {
		backup := filepath.Join(b.work, "backup"+strconv.Itoa(i))
		sealDecide, whole, err := b.failing(ctx, s.name)
		if err != nil {
			return nil, err
		}
		own, ownWhole = append(own, sealDecide), append(ownWhole, whole)
		if err := b.settle(ctx); err != nil {
			return nil, err
		}
		cp, err1 := b.peer(ctx, "cp", "-a", b.tree(s), backup)
		flush, err2 := b.peer(ctx, "sync", "-f", backup)
		script, err3 := timeCommand(b.command(ctx, b.tree(s), "sh", "-c", changes), 1)
		rsync, err4 := b.peer(ctx, "rsync", "-a", "--delete", backup+"/", b.tree(s)+"/")
		peer, peerWhole = append(peer, cp+flush+rsync), append(peerWhole, cp+flush+script+rsync)
		if err := errors.Join(err1, err2, err3, err4, b.settle(ctx)); err != nil {
			return nil, err
		}
	}
	const name = "`cp -a` + `sync -f` + `rsync -a --delete`"
	return []row{
		fasterRow(fmt.Sprintf("seal + decide of a failing run with 175 changes, %s files", number(s.files())), name, median(own), median(peer), 20),
		infoRow("the same, whole process and command included", name+" and the command", median(ownWhole), median(peerWhole)),
	}, nil
}

func (b *bench) bySize(ctx context.Context, small, big shape) ([]row, error) {
	if _, err := b.forkcell(ctx, 0, nil, "--json", "init", small.name, "--from", b.tree(small)); err != nil {
		return nil, err
	}
	var few, many []time.Duration
	for range b.times(15, 5) {
		s, _, err := b.failing(ctx, small.name)
		if err != nil {
			return nil, err
		}
		l, _, err := b.failing(ctx, big.name)
		if err != nil {
			return nil, err
		}
		few, many = append(few, s), append(many, l)
	}
	return []row{ratioRow(fmt.Sprintf("the same seal + decide on %s files", number(big.files())),
		fmt.Sprintf("itself on %s files", number(small.files())), median(many), median(few), 1.5)}, nil
}

func (b *bench) forks(ctx context.Context, list ...shape) ([]row, error) {
	took := make([][]time.Duration, len(list))
	var whole, peer []time.Duration
	for i := range b.times(15, 5) {
		p, err := b.peer(ctx, "bwrap", bwrap()...)
		if err != nil {
			return nil, err
		}
		peer = append(peer, p)
		for k, s := range list {
			var doc struct {
				Engine int64 `json:"engine_us"`
			}
			process, err := b.forkcell(ctx, 0, &doc, "--json", "fork", s.name, "--name", fmt.Sprintf("%s-fork%d", s.name, i))
			if err != nil {
				return nil, err
			}
			took[k], whole = append(took[k], microseconds(doc.Engine)), append(whole, process)
		}
	}
	var rows []row
	for k, s := range list {
		m := median(took[k])
		rows = append(rows, limitRow(fmt.Sprintf("fork, engine time, %s files", number(s.files())), show(m), "below 1 ms", m < time.Millisecond))
	}
	return append(rows, ratioRow("fork, process start to exit, durable signed statement", "`bwrap --unshare-all true`", median(whole), median(peer), 1.3)), nil
}

// start compares the program's shortest command with a program that does nothing.
func (b *bench) start(ctx context.Context) ([]row, error) {
	source := filepath.Join(b.work, "empty.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return nil, err
	}
	built := filepath.Join(b.work, "empty-built")
	if _, err := b.peer(ctx, "go", "build", "-ldflags", "-s -w", "-o", built, source); err != nil {
		return nil, err
	}
	empty, err := install(built, filepath.Join(b.work, "empty"))
	if err != nil {
		return nil, err
	}
	var own, peer []time.Duration
	for range b.times(100, 30) {
		took, err := b.forkcell(ctx, 0, nil, "version")
		if err != nil {
			return nil, err
		}
		p, err := b.peer(ctx, empty)
		if err != nil {
			return nil, err
		}
		own, peer = append(own, took), append(peer, p)
	}
	return []row{ratioRow("`forkcell version`, process start to exit", "a Go program that does nothing", median(own), median(peer), 2)}, nil
}

// bwrap is the plain sandbox that a run is compared with.
func bwrap() []string {
	return []string{"--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"}
}

func (b *bench) runTrue(ctx context.Context, s shape) ([]row, error) {
	own, peer, err := b.besideBwrap(ctx, "run", s.name, "--", "true")
	return []row{ratioRow("`forkcell run CELL -- true`, all controls on, process start to exit, durable signed receipt", "`bwrap --unshare-all true`",
		own, peer, 3)}, err
}

// live executes true in a started cell.
func (b *bench) live(ctx context.Context, s shape) (_ []row, err error) {
	if _, err := b.forkcell(ctx, 0, nil, "--quiet", "start", s.name); err != nil {
		return nil, err
	}
	defer func() {
		_, stop := b.forkcell(ctx, 0, nil, "--quiet", "stop", s.name)
		err = errors.Join(err, stop)
	}()
	own, peer, err := b.besideBwrap(ctx, "exec", s.name, "--", "true")
	return []row{ratioRow("`forkcell exec CELL -- true` in a live cell, process start to exit", "`bwrap --unshare-all true`",
		own, peer, 1.2)}, err
}

// besideBwrap takes turns with bubblewrap.
func (b *bench) besideBwrap(ctx context.Context, args ...string) (own, peer time.Duration, err error) {
	var owns, peers []time.Duration
	for range b.times(40, 10) {
		took, err := b.forkcell(ctx, 0, nil, append([]string{"--quiet"}, args...)...)
		if err != nil {
			return 0, 0, err
		}
		p, err := b.peer(ctx, "bwrap", bwrap()...)
		if err != nil {
			return 0, 0, err
		}
		owns, peers = append(owns, took), append(peers, p)
	}
	return median(owns), median(peers), nil
}

// hundred makes 100 forks and runs true in each, 8 at a time.
func (b *bench) hundred(ctx context.Context, s shape) ([]row, error) {
	const n, width = 100, 8
	var own, runs, peer []time.Duration
	for i := range b.times(5, 2) {
		name := "many" + strconv.Itoa(i)
		begin := time.Now()
		_, err := b.forkcell(ctx, 0, nil, "--json", "fork", s.name, "--name", name, "-n", strconv.Itoa(n))
		if err != nil {
			return nil, err
		}
		forked := time.Now()
		err = inParallel(n, width, func(k int) error {
			_, err := b.forkcell(ctx, 0, nil, "--quiet", "run", fmt.Sprintf("%s-%d", name, k+1), "--", "true")
			return err
		})
		own, runs = append(own, time.Since(begin)), append(runs, time.Since(forked))
		if err != nil {
			return nil, err
		}
		begin = time.Now()
		err = inParallel(n, width, func(int) error {
			_, err := b.peer(ctx, "bwrap", bwrap()...)
			return err
		})
		peer = append(peer, time.Since(begin))
		if err != nil {
			return nil, err
		}
	}
	return []row{
		ratioRow("100 forks that each run `true`, 8 at a time, the forking included", "`bwrap`, 100 times, 8 at a time", median(own), median(peer), 4),
		ratioRow("100 cells that each run `true`, 8 at a time", "`bwrap`, 100 times, 8 at a time", median(runs), median(peer), 3),
	}, nil
}

func inParallel(n, width int, do func(int) error) error {
	var wait sync.WaitGroup
	errs := make([]error, n)
	slots := make(chan struct{}, width)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = do(i)
			<-slots
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
