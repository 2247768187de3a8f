package moments

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// contents is the file that lists the others of an image. Its digest is that of the
// image.
const contents = "contents.json"

// maxSmall bounds the files of an image that are read into memory.
const maxSmall = 64 << 20

// entry is one file or directory of an image. Times are left out: they are those of
// the cell's files, and nothing depends on them.
type entry struct {
	Path   []byte `json:"path"`
	Mode   uint32 `json:"mode"`
	UID    uint32 `json:"uid"`
	GID    uint32 `json:"gid"`
	Size   int64  `json:"size,omitempty"`
	Digest string `json:"sha256,omitempty"`
	Target []byte `json:"target,omitempty"`
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Size returns how many bytes the files of a kept image have.
func (m Image) Size() (total int64, err error) {
	list, err := m.Read(contents)
	if err != nil {
		return 0, fmt.Errorf("measure memory: %w", err)
	}
	total = int64(len(list))
	for line := range bytes.Lines(list) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return 0, fmt.Errorf("measure memory: %w", err)
		}
		total += e.Size
	}
	return total, nil
}

// listing describes every byte of an image but the list itself, one entry in a line. A
// cell chooses how many files there are, so the list has a longest length.
func listing(ctx context.Context, dir *fsx.Dir, longest int) ([]byte, error) {
	var out bytes.Buffer
	err := list(ctx, dir, "", longest, &out)
	return out.Bytes(), err
}

func list(ctx context.Context, dir *fsx.Dir, prefix string, longest int, out *bytes.Buffer) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if prefix == "" && name == contents {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return err
		}
		e := entry{Path: []byte(prefix + name), Mode: info.Mode, UID: info.UID, GID: info.GID}
		if err := e.describe(dir, name, info); err != nil {
			return err
		}
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if out.Len()+len(line) >= longest {
			return fmt.Errorf("it has more files than a list of %d bytes can name", longest)
		}
		out.Write(append(line, '\n'))
		if !info.IsDir() {
			continue
		}
		sub, err := dir.OpenDir(name)
		if err != nil {
			return err
		}
		err = list(ctx, sub, prefix+name+"/", longest, out)
		_ = sub.Close() // it was only read
		if err != nil {
			return err
		}
	}
	return nil
}

// describe adds what a file or a link holds.
func (e *entry) describe(dir *fsx.Dir, name string, info fsx.Info) error {
	switch {
	case info.IsSymlink():
		target, err := dir.Readlink(name)
		e.Target = []byte(target)
		return err
	case info.IsRegular():
		f, err := dir.OpenFile(name)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		e.Size, err = io.Copy(h, f)
		e.Digest = hex.EncodeToString(h.Sum(nil))
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
