package leftout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/index"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/quote"
)

// Bounds for what foreign bytes can make us read or remember. Git's own index of
// a million files has about 100 MiB.
const (
	maxIndex     = 256 << 20
	maxGitFile   = 4096
	maxNameBytes = 512 << 20 // all names of one index together
	maxDepth     = 1000
)

// ErrIndex is wrapped by the errors about an index that cannot be read.
var ErrIndex = errors.New("git index cannot be read")

// Tracked returns the paths below root that git tracks, in the repository at
// root and in every repository below it. It reads only what is inside root: a
// linked work tree, whose index is elsewhere, counts as not tracked.
//
// An index that cannot be read (damaged, split, sparse, or of a repository with
// SHA-256 names) is an error that wraps ErrIndex and names it; the map then
// still holds all that could be read, and treating the rest as not tracked errs
// on the side of leaving secrets out.
func Tracked(root *fsx.Dir) (map[string]struct{}, error) {
	t := tracker{root: root, paths: map[string]struct{}{}}
	err := t.walk(root, ".", 0)
	if err == nil {
		err = errors.Join(t.bad...)
	}
	return t.paths, err
}

type tracker struct {
	root  *fsx.Dir
	paths map[string]struct{}
	bad   []error
}

func (t *tracker) walk(d *fsx.Dir, rel string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("look for git repositories: %s is nested too deeply", quote.Path(rel))
	}
	entries, err := readDir(d)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil // the import decides what becomes of it
		}
		return fmt.Errorf("look for git repositories in %s: %w", quote.Path(rel), err)
	}
	for _, e := range entries {
		below := path.Join(rel, e.Name())
		if e.Name() == ".git" {
			if err := t.repository(rel); err != nil {
				t.bad = append(t.bad, fmt.Errorf("%w: %s: %w", ErrIndex, quote.Path(below), err))
			}
			continue
		}
		if !e.IsDir() {
			continue
		}
		sub, err := d.OpenDir(e.Name())
		if err != nil {
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return fmt.Errorf("look for git repositories in %s: %w", quote.Path(below), err)
		}
		err = t.walk(sub, below, depth+1)
		_ = sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// readDir lists a directory with the types that the kernel gives for free, which
// spares one lstat per file of the tree.
func readDir(d *fsx.Dir) ([]os.DirEntry, error) {
	fd, err := unix.Openat(d.Fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.Path())
	defer f.Close()
	return f.ReadDir(-1)
}

// repository adds what the repository whose work tree is rel tracks.
func (t *tracker) repository(rel string) error {
	git := path.Join(rel, ".git")
	info, err := t.root.Lstat(git)
	if err != nil {
		return err
	}
	if info.IsRegular() { // a submodule or a linked work tree
		target, ok, err := t.gitFile(rel, git)
		if err != nil || !ok {
			return err
		}
		git = target
	} else if !info.IsDir() {
		return nil
	}
	b, err := t.read(path.Join(git, "index"), maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := indexNames(b)
	for _, n := range names {
		t.paths[path.Join(rel, n)] = struct{}{}
	}
	return err
}

// gitFile returns the directory that a file called .git points to, if it is
// inside root.
func (t *tracker) gitFile(rel, file string) (dir string, ok bool, err error) {
	b, err := t.read(file, maxGitFile)
	if err != nil {
		return "", false, err
	}
	target, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
	if !ok {
		return "", false, errors.New("it does not say where the repository is")
	}
	if path.IsAbs(target) {
		target, ok = strings.CutPrefix(path.Clean(target), path.Clean(t.root.Path())+"/")
		return target, ok, nil
	}
	target = path.Join(rel, target)
	return target, target != ".." && !strings.HasPrefix(target, "../"), nil
}

func (t *tracker) read(rel string, limit int64) ([]byte, error) {
	f, err := t.root.OpenFile(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return b, err
}

// indexNames returns the names in an index that could be names of files below a
// work tree.
func indexNames(b []byte) (names []string, err error) {
	if err := checkCompressed(b); err != nil {
		return nil, err
	}
	var idx index.Index
	if err := index.NewDecoder(bytes.NewReader(b)).Decode(&idx); err != nil {
		return nil, err
	}
	for _, e := range idx.Entries {
		if fsx.CheckPath(e.Name) == nil {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// checkCompressed refuses a version 4 index whose names would take more memory
// than any real one: each may repeat the one before it and add a byte, so a small
// file can stand for terabytes of names, and the decoder would build them all.
func checkCompressed(b []byte) error {
	const header, fixed, flagsAt, extended = 12, 62, 60, 0x40
	if len(b) < header || b[4] != 0 || b[5] != 0 || b[6] != 0 || b[7] != 4 {
		return nil
	}
	count := int(b[8])<<24 | int(b[9])<<16 | int(b[10])<<8 | int(b[11])
	total, last := 0, 0
	b = b[header:]
	for ; count > 0; count-- {
		if len(b) < fixed {
			return io.ErrUnexpectedEOF
		}
		skip := fixed
		if b[flagsAt]&extended != 0 {
			skip += 2
		}
		strip, n := varint(b[min(skip, len(b)):])
		end := -1
		if n > 0 {
			end = bytes.IndexByte(b[skip+n:], 0)
		}
		if end < 0 || strip > last {
			return io.ErrUnexpectedEOF
		}
		last += end - strip
		total += last
		if total > maxNameBytes {
			return fmt.Errorf("its names take more than %d bytes", maxNameBytes)
		}
		b = b[skip+n+end+1:]
	}
	return nil
}

// varint reads git's variable-width number; n is 0 if there is none.
func varint(b []byte) (v, n int) {
	for n < len(b) && n < 4 {
		c := b[n]
		n++
		v = v<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return v, n
		}
		v++
	}
	return 0, 0
}
