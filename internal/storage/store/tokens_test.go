package store

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

func TestTokensFile(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	s, err := Open(home, Create)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if info, err := s.TokensInfo(); info != nil || err != nil {
		t.Fatalf("a new home has a file of tokens: %v, %v", info, err)
	}
	if data, info, err := s.ReadTokens(); data != nil || info != nil || err != nil {
		t.Fatalf("read of a missing file: %q, %v, %v", data, info, err)
	}

	// Changes of two processes at once: none is lost.
	other, err := Open(home, Write)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := []*Store{s, other}[i%2].ChangeTokens(func(old []byte) ([]byte, error) { return append(old, 'x'), nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	data, info, err := s.ReadTokens()
	if err != nil || len(data) != 20 {
		t.Fatalf("20 changes made %q, %v", data, err)
	}
	if now, err := other.TokensInfo(); err != nil || !os.SameFile(now, info) {
		t.Fatalf("the file was replaced: %v", err)
	}

	// A change that fails leaves the file alone.
	failed := errors.New("no")
	if err := s.ChangeTokens(func([]byte) ([]byte, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if now, err := s.TokensInfo(); err != nil || !os.SameFile(now, info) {
		t.Fatalf("a failed change replaced the file: %v", err)
	}

	for _, mode := range []os.FileMode{0o640, 0o604} {
		if err := os.Chmod(filepath.Join(home, tokensName), mode); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.ReadTokens(); !errors.Is(err, ErrPermission) {
			t.Errorf("mode %s was read: %v", strconv.FormatInt(int64(mode), 8), err)
		}
	}
}
