package injection

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxFile bounds one file of a policy, maxFiles how many there are.
const (
	maxFile  = 256 << 10
	maxFiles = 64
)

// untrustedError returns the error for a file that another user could have written.
func untrustedError(name, format string, args ...any) error {
	return api.Refusef(api.CodeNotPrivate, "it must belong to you, and nobody else may write it or a directory above it",
		"%s %s", quote.Path(name), fmt.Sprintf(format, args...))
}

// malformed returns the error for a policy with a fault.
func malformed(name string, err error) error {
	return api.Usagef("", "injection policy %s: %s", quote.Path(name), err)
}

// openTrusted opens a regular file by an absolute path without symbolic links. The
// file belongs to the caller and has none of the forbidden permissions. Every
// directory above it belongs to root or the caller, and only they can write it,
// unless it is sticky, and none is the workspace, whatever name it has there; "" if there
// is none. A file that is not there is fs.ErrNotExist, wherever else it would be.
func openTrusted(name, workspace string, forbidden uint32) (*os.File, error) {
	if !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
		return nil, untrustedError(name, "is not an absolute path without . and ..")
	}
	inWorkspace, err := workspaceOf(workspace, name)
	if err != nil {
		return nil, err
	}
	dir, err := fsx.OpenRoot("/")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	var distrust error
	parts := strings.Split(name[1:], "/")
	for i, part := range parts[:len(parts)-1] {
		above := "/" + strings.Join(parts[:i+1], "/")
		next, err := dir.OpenDir(part)
		if err != nil {
			return nil, followError(dir, part, name, err)
		}
		_ = dir.Close()
		dir = next
		info, err := dir.Lstat(".")
		if err != nil {
			return nil, err
		}
		if err := inWorkspace(info); err != nil {
			return nil, err
		}
		distrust = cmp.Or(distrust, checkDirectory(info, name, above))
	}
	last := parts[len(parts)-1]
	f, err := dir.OpenFile(last)
	if err != nil {
		return nil, followError(dir, last, name, err)
	}
	if err := cmp.Or(distrust, checkFile(f, name, forbidden)); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// workspaceOf returns what refuses a directory above a file if it is the workspace: the
// repository must not be the source of what the operator gives to a session.
func workspaceOf(workspace, name string) (func(above fsx.Info) error, error) {
	if workspace == "" {
		return func(fsx.Info) error { return nil }, nil
	}
	refused := api.Refusef(api.CodeNotPrivate, "keep it elsewhere: the workspace is not trusted", "%s is in the workspace", quote.Path(name))
	if name == workspace || strings.HasPrefix(name, strings.TrimSuffix(workspace, "/")+"/") {
		return nil, refused
	}
	info, err := os.Stat(workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return func(fsx.Info) error { return nil }, nil // nothing is in it
	}
	if err != nil {
		return nil, err
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	return func(above fsx.Info) error {
		if above.Dev == stat.Dev && above.Ino == stat.Ino {
			return refused
		}
		return nil
	}, nil
}

// checkDirectory checks a directory above a file.
func checkDirectory(info fsx.Info, name, above string) error {
	switch {
	case info.UID != 0 && info.UID != uint32(os.Geteuid()):
		return untrustedError(name, "is below %s, which belongs to another user", quote.Path(above))
	case info.Mode&0o022 != 0 && info.Mode&0o1000 == 0:
		return untrustedError(name, "is below %s, which others can write", quote.Path(above))
	}
	return nil
}

// followError returns why a path could not be opened.
func followError(dir *fsx.Dir, part, name string, err error) error {
	info, bad := dir.Lstat(part)
	switch {
	case bad == nil && info.IsSymlink():
		return untrustedError(name, "goes through a symbolic link at %s", quote.Path(part))
	case errors.Is(err, fsx.ErrNotRegular):
		return api.Refusef(api.CodeNotPrivate, "it must be one file of yours", "%s is not a regular file", quote.Path(name))
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrPermission):
		return api.Refusef(api.CodeNotPrivate, "", "%s cannot be opened: %s: %s", quote.Path(name), quote.Path(part), quote.Cause(err))
	}
	return err
}

func checkFile(f *os.File, name string, forbidden uint32) error {
	info, err := fsx.StatFile(f)
	switch {
	case err != nil:
		return err
	case info.UID != uint32(os.Geteuid()):
		return untrustedError(name, "belongs to another user")
	case info.Mode&forbidden != 0:
		return tooOpen(name, info.Mode, forbidden)
	case info.Nlink != 1:
		return untrustedError(name, "has several names (hard links)")
	}
	return nil
}

// tooOpen returns the error for a file with forbidden permissions.
func tooOpen(name string, mode, forbidden uint32) error {
	what, change := "write it", "go-w"
	if forbidden&0o044 != 0 {
		what, change = "read or write it", "go="
	}
	return api.Refusef(api.CodeNotPrivate, "it must belong to you, and nobody else may "+what+": `chmod "+change+" "+quote.Arg(name)+"`",
		"%s is open to others (mode %04o)", quote.Path(name), mode)
}

// readTrusted reads a file of a policy.
func (l Loader) readTrusted(name string) ([]byte, error) {
	f, err := openTrusted(name, l.Workspace, 0o022)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = malformed(name, fmt.Errorf("larger than %d bytes", maxFile))
	}
	return text, err
}

// OpenSecret opens the file of a credential: a regular file of the caller that
// no other user may read or write, reached without symbolic links, and not through the
// workspace, if there is one.
func OpenSecret(name, workspace string) (*os.File, error) {
	return openTrusted(name, workspace, 0o077)
}

// OpenPublic opens a file of the caller that no other user may write, reached without
// symbolic links, and not through the workspace, if there is one.
func OpenPublic(name, workspace string) (*os.File, error) {
	return openTrusted(name, workspace, 0o022)
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// isMissing reports whether a file does not exist.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
