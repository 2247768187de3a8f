package moments

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// contents is the file that lists the others of an image. Its digest is that of the
// image.
const contents = "contents.json"

// maxSmall bounds the files of an image that are read into memory.
const maxSmall = 64 << 20

// entry is one file or directory of an image. Times are left out: they are those of
// the cell's files, and nothing depends on them.
type entry struct {
	Path []byte `json:"path"`
	Mode uint32 `json:"mode"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	Size int64  `json:"size,omitempty"`
	// Digest is that of a file's contents, as in a state of a cell.
	Digest string `json:"sha256,omitempty"`
	Target []byte `json:"target,omitempty"`
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// inodeSize is the least that any name counts, as everywhere in a home.
const inodeSize = 4096

// Size returns the disk space of an image.
func (m Image) Size(ctx context.Context) (total int64, err error) {
	dir, err := m.Open()
	if err != nil {
		return 0, fmt.Errorf("measure memory: %w", err)
	}
	defer dir.Close()
	const blockSize = 512
	err = fsx.Walk(ctx, dir, fsx.Visitor{Enter: func(at *fsx.Step) (bool, error) {
		total += max(at.Info.Blocks*blockSize, inodeSize)
		return true, nil
	}})
	return total, err
}

// listing describes every byte of an image but the list itself, one entry in a line. A
// cell chooses how many files there are, so the list has a longest length.
func listing(ctx context.Context, dir *fsx.Dir, longest int) ([]byte, error) {
	var out bytes.Buffer
	sum := tree.NewContent()
	err := fsx.Walk(ctx, dir, fsx.Visitor{Enter: func(at *fsx.Step) (bool, error) {
		name := at.Path()
		if name == contents {
			return false, nil
		}
		e := entry{Path: []byte(name), Mode: at.Info.Mode, UID: at.Info.UID, GID: at.Info.GID}
		if err := e.describe(ctx, at, sum); err != nil {
			return false, err
		}
		line, err := json.Marshal(e)
		if err != nil {
			return false, err
		}
		if out.Len()+len(line) >= longest {
			return false, fmt.Errorf("it has more files than a list of %d bytes can name", longest)
		}
		out.Write(append(line, '\n'))
		return true, nil
	}})
	return out.Bytes(), err
}

// describe adds what a file or a link holds. Holes are not read: a cell can make them of
// any length.
func (e *entry) describe(ctx context.Context, at *fsx.Step, sum *tree.Content) error {
	switch {
	case at.Info.IsSymlink():
		target, err := at.Dir().Readlink(at.Name)
		e.Target = []byte(target)
		return err
	case at.Info.IsRegular():
		f, err := at.Dir().OpenFile(at.Name)
		if err != nil {
			return err
		}
		defer f.Close()
		sum.Reset(at.Info.Size, nil)
		if e.Size, err = fsx.ReadSparse(ctx, f, sum); err != nil {
			return err
		}
		digest, _, err := sum.Sum(nil)
		e.Digest = hex.EncodeToString(digest[:])
		return err
	}
	return nil
}

// differ returns ErrDamaged with the first entry that differs between two lists.
func differ(want, got []byte) error {
	if bytes.Equal(want, got) {
		return nil
	}
	wanted, have := entries(want), entries(got)
	for path, line := range wanted {
		switch found, ok := have[path]; {
		case !ok:
			return fmt.Errorf("%w: %q is missing", ErrDamaged, path)
		case found != line:
			return fmt.Errorf("%w: %q was altered or cut off", ErrDamaged, path)
		}
	}
	for path := range have {
		if _, ok := wanted[path]; !ok {
			return fmt.Errorf("%w: %q was added", ErrDamaged, path)
		}
	}
	return fmt.Errorf("%w: the list of its files has another order", ErrDamaged)
}

// entries returns the lines of a list by path.
func entries(list []byte) map[string]string {
	out := map[string]string{}
	for line := range bytes.Lines(list) {
		var e entry
		if json.Unmarshal(line, &e) == nil {
			out[string(e.Path)] = string(line)
		}
	}
	return out
}

// readSmall reads a file of an image.
func readSmall(dir *fsx.Dir, name string) ([]byte, error) {
	f, err := dir.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(data) > maxSmall {
		err = fmt.Errorf("%w: %s has more than %d bytes", ErrDamaged, name, maxSmall)
	}
	return data, err
}

func syncDir(home *fsx.Dir, name string) error {
	dir, err := home.OpenDir(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
