package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// machine is everything that the emulator is started with. It is started twice,
// for root's jobs and for the ordinary user's, and neither writes to the disks.
type machine struct {
	system *system
	dir    string
	initrd string
	disk   string // jobs, test binaries, a copy of the repository
	bin    string // the same binaries, here
}

func assemble(ctx context.Context, dir string, s *system, jobs []job) (*machine, error) {
	m := &machine{
		system: s, dir: dir, initrd: filepath.Join(dir, "initrd"), disk: filepath.Join(dir, "tests.ext4"),
		bin: filepath.Join(dir, "disk", "bin"),
	}
	if err := os.MkdirAll(m.bin, 0o755); err != nil {
		return nil, err
	}
	fmt.Println("compiling the tests")
	if err := compileTests(ctx, m.bin, jobs); err != nil {
		return nil, err
	}
	if err := copyRepository(filepath.Join(dir, "disk", "repo")); err != nil {
		return nil, fmt.Errorf("copy the repository: %w", err)
	}
	plan, err := json.Marshal(jobs)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "disk", filepath.Base(planPath)), plan, 0o644); err != nil {
		return nil, err
	}
	if err := makeImage(ctx, m.disk, filepath.Join(dir, "disk"), "1G"); err != nil {
		return nil, err
	}
	self := filepath.Join(dir, "init")
	if err := static(ctx, "build", "-buildvcs=false", "-o", self, "./scripts/compat"); err != nil {
		return nil, err
	}
	return m, makeInitrd(m.initrd, self, s.modules)
}

// copyRepository copies what tests may read; they run beside their packages.
func copyRepository(to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Name() == ".git" || e.Name() == "bin":
		case e.IsDir():
			err = os.CopyFS(filepath.Join(to, e.Name()), os.DirFS(e.Name()))
		case e.Type().IsRegular():
			var data []byte
			if data, err = os.ReadFile(e.Name()); err == nil {
				err = os.WriteFile(filepath.Join(to, e.Name()), data, 0o644)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeInitrd writes the first file system of the machine: this program, and the
// modules, numbered in the order in which they are loaded.
func makeInitrd(file, self, modules string) (err error) {
	files, err := moduleFiles(modules)
	if err != nil {
		return err
	}
	order, err := moduleOrder(files, neededModules(), moduleNeeds)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	c := &cpio{out: zip}
	c.dir("dev")
	c.dir("new")
	c.dir("modules")
	c.copy("init", self)
	for i, module := range order {
		c.copy(fmt.Sprintf("modules/%03d-%s", i, filepath.Base(module)), module)
	}
	return errors.Join(c.finish(), zip.Close())
}

// cpio writes an archive of the kernel's kind, "newc". The first error stays.
type cpio struct {
	out io.Writer
	n   int // entries so far; each is a separate file
	err error
}

const (
	cpioDir  = 0o040755
	cpioFile = 0o100755
)

func (c *cpio) dir(name string) { c.entry(name, cpioDir, nil) }

func (c *cpio) copy(name, from string) {
	data, err := os.ReadFile(from)
	if c.err == nil {
		c.err = err
	}
	c.entry(name, cpioFile, data)
}

func (c *cpio) finish() error {
	c.entry("TRAILER!!!", 0, nil)
	return c.err
}

func (c *cpio) entry(name string, mode int, data []byte) {
	if c.err != nil {
		return
	}
	c.n++
	// Magic, then inode, mode, user, group, links, time, size, the device of the
	// file and of a node, the length of the name with its zero, no checksum.
	head := "070701"
	for _, v := range []int{c.n, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
		head += fmt.Sprintf("%08X", v)
	}
	head += name + "\x00"
	for _, part := range [][]byte{[]byte(head), data} {
		padded := append(part, make([]byte, -len(part)&3)...)
		if _, c.err = c.out.Write(padded); c.err != nil {
			return
		}
	}
}
