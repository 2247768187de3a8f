package fsx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// errTooLarge means that a file is larger than the limit of its reader.
var errTooLarge = errors.New("too large")

// ReadOwn reads a file that the caller keeps for itself: a regular file of at
// most limit bytes that belongs to the caller and has none of the forbidden
// permissions. These are asked of the open file, so it cannot be exchanged
// meanwhile. A file that does not exist is os.ErrNotExist.
func ReadOwn(name string, forbidden fs.FileMode, limit int64) ([]byte, error) {
	// The kind is looked at before opening too: opening a pipe may block.
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Mode().Perm()&forbidden != 0:
		return nil, fmt.Errorf("open to others (mode %04o); chmod 600 makes it private", info.Mode().Perm())
	case !ownedByCaller(info):
		return nil, errors.New("belongs to another user")
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
	}
	return text, err
}

func ownedByCaller(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
