// Command bench is `make bench`: it measures forkcell beside the tools that
// people would use instead (cp, rsync, bubblewrap, proxies that inspect), in one
// run, so that both sides meet the same noise, and prints medians against the
// targets.
//
// It knows forkcell by its command line, and the daemon by HTTP.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

type options struct {
	forkcell string
	dir      string
	markdown bool
	quick    bool
	cells    int
	only     string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == clientName {
		if err := clientMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench client:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.forkcell, "forkcell", "bin/forkcell", "the `program` to measure")
	flag.StringVar(&o.dir, "dir", "", "measure below this `directory` (default: the one for temporary files)")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown")
	flag.BoolVar(&o.quick, "quick", false, "fewer repetitions")
	flag.IntVar(&o.cells, "cells", 100, "`number` of live cells that are idle at once")
	flag.StringVar(&o.only, "only", "", "measure only the cases whose name holds this `text`; some need the cells of others")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// install copies a program, as an installation does. What the linker has just
// written lies in the page cache in the smallest pieces, and each of them is mapped
// on its own when the program starts: that took a fifth of a start.
func install(from, to string) (string, error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return "", err
	}
	return to, os.WriteFile(to, data, 0o755)
}

func run(ctx context.Context, o options) (err error) {
	program, err := filepath.Abs(o.forkcell)
	if err != nil {
		return err
	}
	for _, tool := range []string{"cp", "sync", "rsync", "bwrap", program} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w; as root, make bench installs it", err)
		}
	}
	work, err := os.MkdirTemp(o.dir, "forkcell-bench-")
	if err != nil {
		return err
	}
	defer func() {
		if rest := os.RemoveAll(work); err == nil {
			err = rest
		}
	}()
	// The daemon is the whole program, which the lean one finds beside it.
	for _, name := range []string{"", "-server"} {
		if _, err := install(program+name, filepath.Join(work, "forkcell"+name)); err != nil {
			return err
		}
	}
	// So does it find the runtime gvisor, if that was built.
	if _, err := install(program+"-gvisor", filepath.Join(work, guestRuntime)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	program = filepath.Join(work, "forkcell")
	b := &bench{program: program, work: work, home: filepath.Join(work, "home"), quick: o.quick, cells: o.cells, only: o.only}
	machine, err := describe(ctx, b)
	if err != nil {
		return err
	}
	rows, err := b.all(ctx)
	if err != nil {
		return err
	}
	if o.markdown {
		printMarkdown(os.Stdout, machine, rows)
	} else {
		printText(os.Stdout, machine, rows)
	}
	return nil
}
