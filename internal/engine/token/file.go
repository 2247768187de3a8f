package token

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxFile bounds the operator's file of tokens.
const maxFile = 64 << 20

// readPrivate reads a regular file, not through a link, that only root and this
// process's user can read or change: who can change it can make tokens.
func readPrivate(path string) ([]byte, error) {
	dir, err := fsx.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	f, err := dir.OpenFile(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := fsx.StatFile(f)
	if err != nil {
		return nil, err
	}
	switch {
	case info.Mode&0o077 != 0:
		return nil, fmt.Errorf("%w: %s has mode %04o; it needs 0600", ErrInvalid, quote.Path(path), info.Mode)
	case info.UID != 0 && int(info.UID) != os.Geteuid():
		return nil, fmt.Errorf("%w: %s belongs to uid %d", ErrInvalid, quote.Path(path), info.UID)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%w: %s is larger than %d bytes", ErrInvalid, quote.Path(path), maxFile)
	}
	return data, err
}
