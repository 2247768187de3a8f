// Package files reads and changes files of a live cell: the program in the cell that
// does it, and what the host says to it.
//
// The program runs in the cell like any command, as its user and under its controls,
// so it reaches nothing that the cell's commands do not, by whatever links lie in its
// way. What it answers is trusted as little as theirs: the host bounds and checks it.
//
// Small reads a small file without the program: see there.
//
// The package knows nothing of cells, sockets or callers.
package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"syscall"

	"github.com/forkcell/forkcell/internal/api"
)

// Verb is the first argument that selects Main. The second one is the operation.
const Verb = "files"

// The operations, with their arguments.
const (
	Stat   = "stat"   // PATH
	List   = "list"   // PATH DEPTH
	Read   = "read"   // PATH
	Write  = "write"  // PATH MODE; an empty mode keeps that of the file
	Remove = "remove" // PATH RECURSIVE
	Mkdir  = "mkdir"  // PATH
	Move   = "move"   // FROM TO
	Watch  = "watch"  // PATH RECURSIVE
)

// The exit codes of Main.
const (
	Done     = 0
	Failed   = 1
	NotFound = 3
	Exists   = 4 // it is a directory, is not empty, or is in the way
	NotFile  = 5 // it is no regular file or no directory where one is needed
	Denied   = 6
	TooMany  = 7
	Full     = 8 // the disk is full
)

// The bounds of a list: its entries, all its names and targets of links together, and
// one of them, which is what the kernel takes.
const (
	MaxEntries = 20_000
	MaxList    = 8 << 20
	MaxPath    = 4096
)

// entrySize is what an entry of a list counts besides its texts.
const entrySize = 128

// Size adds an entry to the size of a list, and reports whether it may have that.
type Size struct{ entries, bytes int }

// Add counts an entry.
func (s *Size) Add(e api.FileInfo) error {
	s.entries++
	s.bytes += entrySize + len(e.Path)
	if e.Target != nil {
		s.bytes += len(*e.Target)
	}
	switch {
	case s.entries > MaxEntries:
		return errTooMany
	case s.bytes > MaxList:
		return errTooLong
	}
	return nil
}

var (
	errNotFile = errors.New("not a regular file")
	errNotDir  = errors.New("not a directory")
	errTooMany = errors.New("more than " + strconv.Itoa(MaxEntries) + " entries")
	errTooLong = errors.New("names of more than " + strconv.Itoa(MaxList>>20) + " MiB")
	errCut     = errors.New("the contents were cut off")
)

// Main carries out one operation. Answers go to stdout as JSON lines, and the reason
// of a failure to stderr.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := operate(args, stdin, stdout)
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	switch {
	case err == nil:
		return Done
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EISDIR):
		return Exists
	case errors.Is(err, errNotFile), errors.Is(err, errNotDir), errors.Is(err, syscall.ENOTDIR):
		return NotFile
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return Denied
	case errors.Is(err, errTooMany), errors.Is(err, errTooLong):
		return TooMany
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return Full
	}
	return Failed
}

func operate(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) < 3 || args[0] != Verb {
		return errors.New("usage: files OPERATION PATH [ARGUMENT]")
	}
	args = append(args, "")
	at, more := args[2], args[3]
	out := json.NewEncoder(stdout)
	switch args[1] {
	case Stat:
		return describe(out, at)
	case List:
		depth, err := strconv.Atoi(more)
		if err != nil {
			return err
		}
		return (&lister{out: out}).list(at, "", depth)
	case Read:
		return serve(at, stdin, stdout)
	case Write:
		return write(out, at, more, stdin)
	case Remove:
		return remove(at, more == "true")
	case Mkdir:
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		return describe(out, at)
	case Move:
		return move(out, at, more)
	case Watch:
		return watch(out, at, more == "true", stdin)
	}
	return fmt.Errorf("unknown operation %q", args[1])
}

// describe writes what a path is; a link is not followed.
func describe(out *json.Encoder, at string) error {
	info, err := os.Lstat(at)
	if err != nil {
		return err
	}
	return out.Encode(entry(info, at, at))
}

// entry returns the description of a file at a place.
func entry(info fs.FileInfo, name, at string) api.FileInfo {
	e := api.FileInfo{Path: name, Type: "other", Size: info.Size(), Mode: fmt.Sprintf("%04o", unixMode(info.Mode())), MTime: info.ModTime().UTC()}
	switch info.Mode().Type() {
	case 0:
		e.Type = "file"
	case fs.ModeDir:
		e.Type, e.Size = "dir", 0
	case fs.ModeSymlink:
		e.Type = "symlink"
		target, err := os.Readlink(at)
		if err == nil {
			e.Target = &target
		}
	default:
	}
	return e
}

// unixMode returns the permission bits as chmod takes them.
func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, value := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			mode |= value
		}
	}
	return mode
}

// lister lists a directory and what is below it.
type lister struct {
	out  *json.Encoder
	size Size
}

func (l *lister) list(at, prefix string, depth int) error {
	names, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, d := range names {
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just been removed
		}
		if err != nil {
			return err
		}
		below, name := at+"/"+d.Name(), path.Join(prefix, d.Name())
		e := entry(info, name, below)
		if err := l.size.Add(e); err != nil {
			return err
		}
		if err := l.out.Encode(e); err != nil {
			return err
		}
		if d.IsDir() && depth > 1 {
			if err := l.list(below, name, depth-1); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func remove(at string, recursive bool) error {
	if !recursive {
		return os.Remove(at)
	}
	if _, err := os.Lstat(at); err != nil {
		return err
	}
	return os.RemoveAll(at)
}

func move(out *json.Encoder, from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return describe(out, to)
}
