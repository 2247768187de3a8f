package gvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"sync"
	"time"
)

// digests remembers those of programs: each branch needs them, and they are large.
type digests struct {
	mu    sync.Mutex
	known map[string]knownDigest
}

type knownDigest struct {
	info os.FileInfo
	hash string
}

// of returns the digest of a file. A file that was not changed is read once.
func (d *digests) of(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if k, ok := d.known[path]; ok && os.SameFile(k.info, info) && k.info.Size() == info.Size() && k.info.ModTime().Equal(info.ModTime()) {
		return k.hash, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	hash := hex.EncodeToString(h.Sum(nil))
	// The times of files are not exact: one that was changed just now is read again.
	if time.Since(info.ModTime()) > time.Second {
		if d.known == nil {
			d.known = map[string]knownDigest{}
		}
		d.known[path] = knownDigest{info, hash}
	}
	return hash, nil
}
