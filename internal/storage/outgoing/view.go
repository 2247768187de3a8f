package outgoing

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// viewFiles is a view as leftout reads it.
type viewFiles struct{ *View }

func (v viewFiles) Open(p string) (*os.File, error) { return v.View.Open(p) }

func (v viewFiles) Names(dir string) ([]string, error) { return v.View.Names(dir) }

func (v viewFiles) Readlink(p string) (string, error) {
	if v.Link == nil {
		return "", fs.ErrInvalid
	}
	return v.Link(p)
}

// Overlay returns the view that has the names of both, and the files of the first that has
// them.
func Overlay(first, second *View) *View {
	return &View{
		Names: func(dir string) ([]string, error) {
			names, err := first.Names(dir)
			if err != nil {
				return nil, err
			}
			more, err := second.Names(dir)
			return append(names, more...), err
		},
		Open: func(p string) (*os.File, error) {
			f, err := first.open(p)
			if errors.Is(err, fs.ErrNotExist) {
				return second.open(p)
			}
			return f, err
		},
	}
}

// open opens a file. A view that cannot open files has none.
func (v *View) open(p string) (*os.File, error) {
	if v.Open == nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	}
	return v.Open(p)
}

// ViewOf returns the view of a directory of the host. No link is followed.
func ViewOf(dir *fsx.Dir) *View {
	return &View{
		Names: func(at string) ([]string, error) {
			d, err := dir.OpenDir(at)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			defer d.Close()
			return d.Names()
		},
		Open: dir.OpenFile, Link: dir.Readlink,
	}
}
