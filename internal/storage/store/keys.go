package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// maxKey bounds a key file.
const maxKey = 64 << 10

// SigningKey returns the private key file. At first use it makes the key with
// generate. Two processes that make it at the same time get the same key.
func (s *Store) SigningKey(generate func() ([]byte, error)) ([]byte, error) {
	data, err := s.readKey("keys/signing.pem")
	if !errors.Is(err, fs.ErrNotExist) || generate == nil {
		return data, err
	}
	unlock, err := s.lockFile("locks/key", unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if data, err := s.readKey("keys/signing.pem"); !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if data, err = generate(); err != nil {
		return nil, err
	}
	return data, fsx.WriteFile(s.dir, "keys/signing.pem", data, 0o600)
}

const stagedKey = "keys/next.pem"

// StageKey stores a new private key beside the present one.
func (s *Store) StageKey(data []byte) error { return fsx.WriteFile(s.dir, stagedKey, data, 0o600) }

// StagedKey returns the key that will replace the present one, if there is one.
func (s *Store) StagedKey() ([]byte, error) { return s.readKey(stagedKey) }

// DropStagedKey removes the staged key.
func (s *Store) DropStagedKey() error {
	if err := s.dir.Remove(stagedKey); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// PromoteKey keeps the present private key under its id, unless it is lost, and
// replaces it by the staged one.
func (s *Store) PromoteKey(oldID string) error {
	old, err := s.readKey("keys/signing.pem")
	if err == nil {
		err = fsx.WriteFile(s.dir, "keys/retired-"+oldID+".pem", old, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.dir.Rename(stagedKey, s.dir, "keys/signing.pem", 0); err != nil {
		return err
	}
	return s.syncDirs("keys")
}

// TrustKey keeps a public key as trusted.
func (s *Store) TrustKey(id string, pem []byte) error {
	return fsx.WriteFile(s.dir, "keys/trusted/"+id+".pem", pem, 0o600)
}

// TrustedKeys returns the trusted public key files by id.
func (s *Store) TrustedKeys() (map[string][]byte, error) {
	return s.readKeys("keys/trusted", "")
}

// RetiredKeys returns the private keys that were replaced by a rotation, by id.
func (s *Store) RetiredKeys() (map[string][]byte, error) {
	return s.readKeys("keys", "retired-")
}

// KeepPublic keeps the public part of a key that has signed, in case the key is
// lost.
func (s *Store) KeepPublic(id string, pem []byte) error {
	name := "keys/public-" + id + ".pem"
	if _, err := s.dir.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsx.WriteFile(s.dir, name, pem, 0o600)
}

// PublicKeys returns the public parts of the keys that have signed, by id.
func (s *Store) PublicKeys() (map[string][]byte, error) {
	return s.readKeys("keys", "public-")
}

func (s *Store) readKeys(dir, prefix string) (map[string][]byte, error) {
	names, err := s.names(dir)
	if err != nil {
		return nil, err
	}
	keys := map[string][]byte{}
	for _, name := range names {
		id, isKey := strings.CutSuffix(name, ".pem")
		id, hasPrefix := strings.CutPrefix(id, prefix)
		if !isKey || !hasPrefix || isTemp(name) {
			continue
		}
		if keys[id], err = s.readKey(dir + "/" + name); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func (s *Store) readKey(name string) ([]byte, error) {
	f, err := s.dir.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := fsx.StatFile(f)
	if err != nil {
		return nil, err
	}
	if info.Mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %04o; it needs 0600", ErrPermission, name, info.Mode)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err == nil && len(data) > maxKey {
		err = fmt.Errorf("%s is too large for a key", name)
	}
	return data, err
}
