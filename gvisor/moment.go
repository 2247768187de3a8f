package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/subcommands"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/runsc/cmd/util"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/sandbox"
)

// What moment says when the container stands still and when it is saved, and what it is
// told to do: to save it, to save it and let it stand, and then to let it go on after all.
const (
	isStill   = "still\n"
	isSaved   = "saved\n"
	doSave    = "save\n"
	doSuspend = "suspend\n"
	doGoOn    = "go on\n"
)

// moment saves a container while it stands still. Its caller does what belongs to the
// same moment in between. One process does all of it, because each start of one would
// be a part of the pause.
type moment struct {
	image  string
	over   bool
	loaded *container.Container
}

// Name implements subcommands.Command.
func (*moment) Name() string { return "moment" }

// Synopsis implements subcommands.Command.
func (*moment) Synopsis() string { return "save a container while it stands still" }

// Usage implements subcommands.Command.
func (*moment) Usage() string { return "moment --image-path=DIR|--over <container id>\n" }

// SetFlags implements subcommands.Command.
func (m *moment) SetFlags(f *flag.FlagSet) {
	f.StringVar(&m.image, "image-path", "", "directory for the saved container")
	f.BoolVar(&m.over, "over", false, "let a container go on that another process has left standing")
}

// FetchSpec implements util.SubCommand.
func (m *moment) FetchSpec(conf *config.Config, f *flag.FlagSet) (string, *specs.Spec, error) {
	if m.loaded == nil {
		c, err := container.Load(conf.RootDir, container.FullID{ContainerID: f.Arg(0)}, container.LoadOpts{})
		if err != nil {
			return "", nil, fmt.Errorf("loading container: %w", err)
		}
		m.loaded = c
	}
	return m.loaded.ID, m.loaded.Spec, nil
}

// Execute implements subcommands.Command.
func (m *moment) Execute(_ context.Context, f *flag.FlagSet, args ...any) subcommands.ExitStatus {
	conf, ok := args[0].(*config.Config)
	if !ok || f.NArg() != 1 || (m.image == "") != m.over {
		f.Usage()
		return subcommands.ExitUsageError
	}
	if _, _, err := m.FetchSpec(conf, f); err != nil {
		return util.Errorf("%v", err)
	}
	pass := func() error { return m.pass(conf, os.Stdin, os.Stdout) }
	if m.over {
		pass = m.end
	}
	if err := pass(); err != nil {
		return util.Errorf("moment: %v", err)
	}
	return subcommands.ExitSuccess
}

// end lets the container go on if it stands still. One that does not stand must not be
// told so: that would end its kernel.
func (m *moment) end() error {
	if m.loaded.Status == container.Stopped {
		return errors.New("the container has ended")
	}
	if m.loaded.Status == container.Paused {
		return m.loaded.Resume()
	}
	return nil
}

// pass stops the container, says so, saves it if it is told to, and lets it go on.
func (m *moment) pass(conf *config.Config, in io.Reader, out io.Writer) (err error) {
	if err := os.MkdirAll(m.image, 0o700); err != nil {
		return err
	}
	if err := m.loaded.Pause(); err != nil {
		return err
	}
	stands := false
	defer func() {
		if !stands {
			err = errors.Join(err, m.loaded.Resume())
		}
	}()
	if _, err := io.WriteString(out, isStill); err != nil {
		return err
	}
	// A caller that ends instead wants nothing saved.
	orders := bufio.NewReader(in)
	told, err := orders.ReadString('\n')
	if err != nil || told != doSave && told != doSuspend {
		return nil
	}
	err = m.loaded.Checkpoint(conf, m.image, sandbox.CheckpointOpts{
		Compression: statefile.CompressionLevelNone, Resume: true, SaveRestoreExecContainerID: m.loaded.ID,
	})
	if err != nil || told == doSave {
		return err
	}
	if _, err := io.WriteString(out, isSaved); err != nil {
		return err
	}
	// A caller that ends now has what it needs, or ends with the container.
	told, err = orders.ReadString('\n')
	stands = err != nil || told != doGoOn
	return nil
}
