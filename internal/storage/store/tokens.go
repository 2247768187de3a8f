package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

const tokensName = "tokens.json"

// maxTokens bounds the file of tokens.
const maxTokens = 64 << 20

// TokensInfo returns the file of tokens as the file system describes it, nil if
// there is none. It shows cheaply whether another process has replaced the file.
func (s *Store) TokensInfo() (os.FileInfo, error) {
	info, err := os.Lstat(s.sub(tokensName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no file is an answer
	}
	return info, err
}

// ReadTokens returns the content of the file of tokens, and the file that it was
// read from; nil and nil if there is none.
func (s *Store) ReadTokens() ([]byte, os.FileInfo, error) {
	f, err := s.dir.OpenFile(tokensName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Mode()&0o077 != 0 {
		return nil, nil, fmt.Errorf("%w: %s has mode %04o; it needs 0600", ErrPermission, tokensName, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTokens+1))
	if err == nil && len(data) > maxTokens {
		err = fmt.Errorf("%s is larger than %d bytes", tokensName, maxTokens)
	}
	return data, info, err
}

// ChangeTokens replaces the content of the file of tokens by what fn makes of it,
// durably. Processes that change it at the same time do so one after the other.
func (s *Store) ChangeTokens(fn func(old []byte) ([]byte, error)) error {
	if s.readOnly {
		return ErrReadOnly
	}
	lock, err := s.openLock("tokens")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := flock(lock, unix.LOCK_EX); err != nil {
		return err
	}
	old, _, err := s.ReadTokens()
	if err != nil {
		return err
	}
	data, err := fn(old)
	if err != nil {
		return err
	}
	if len(data) > maxTokens {
		return fmt.Errorf("%s would be larger than %d bytes", tokensName, maxTokens)
	}
	return fsx.WriteFile(s.dir, tokensName, data, 0o600)
}
