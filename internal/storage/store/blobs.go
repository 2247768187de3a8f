package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrDigest means that a blob's bytes do not have the digest in its name.
var ErrDigest = errors.New("the bytes do not have the digest of their name")

// BlobWriter writes bytes that are kept under their digest. It stores
// nothing under that name before Commit, and makes no file before the first
// byte: most streams of most commands stay empty.
type BlobWriter struct {
	s    *Store
	f    *os.File // nil until the first byte
	name string
	sum  hash.Hash
	n    int64
}

// NewBlob begins a blob.
func (s *Store) NewBlob() *BlobWriter { return &BlobWriter{s: s, sum: sha256.New()} }

// open makes the blob's temporary file beside the others, so that gc finds it
// after a crash.
func (b *BlobWriter) open() error {
	for {
		b.name = "blobs/." + NewID("tmp")
		f, err := b.s.dir.Create(b.name, 0o600)
		if err != nil {
			return fmt.Errorf("make a blob: %w", err)
		}
		// The lock shows gc that the file is still being written.
		if err := flock(f, unix.LOCK_SH); err != nil {
			return errors.Join(err, f.Close())
		}
		var stat unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
			return errors.Join(err, f.Close())
		}
		if stat.Nlink > 0 {
			b.f = f
			return nil
		}
		// gc found the file before it was locked, and has removed it.
		if err := f.Close(); err != nil {
			return err
		}
	}
}

// Write implements io.Writer.
func (b *BlobWriter) Write(p []byte) (int, error) {
	if b.f == nil {
		if err := b.open(); err != nil {
			return 0, err
		}
	}
	n, err := b.f.Write(p)
	b.sum.Write(p[:n])
	b.n += int64(n)
	return n, err
}

// Size returns the number of bytes written so far.
func (b *BlobWriter) Size() int64 { return b.n }

// Reader opens what was written so far, also after Commit. The error is
// fs.ErrNotExist if that is nothing.
func (b *BlobWriter) Reader() (*os.File, error) {
	if b.f == nil {
		return nil, fs.ErrNotExist
	}
	return b.s.dir.OpenFile(b.name)
}

// Discard drops the blob.
func (b *BlobWriter) Discard() {
	if b.f == nil {
		return
	}
	_ = b.f.Close()
	_ = b.s.dir.Remove(b.name)
}

// Commit makes the blob durable and returns its digest.
func (b *BlobWriter) Commit() (string, error) {
	if b.f == nil {
		if err := b.open(); err != nil {
			return "", err
		}
	}
	digest := hex.EncodeToString(b.sum.Sum(nil))
	if err := b.f.Sync(); err != nil {
		b.Discard()
		return "", fmt.Errorf("keep a blob: %w", err)
	}
	defer b.f.Close() // until then gc leaves it
	dir := "blobs/sha256/" + digest[:2]
	if err := b.s.dir.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	temp := b.name
	b.name = dir + "/" + digest
	// A blob of the same name has the same bytes, unless it is damaged. It may not be
	// durable yet: its writer may be another process.
	if err := b.s.dir.Rename(temp, b.s.dir, b.name, 0); err != nil {
		return "", fmt.Errorf("keep a blob: %w", err)
	}
	return digest, b.s.syncDirs(dir, "blobs/sha256")
}

func (s *Store) syncDirs(names ...string) error {
	for _, name := range names {
		d, err := s.dir.OpenDir(name)
		if err != nil {
			return err
		}
		err = errors.Join(d.Sync(), d.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// HasBlob reports whether a blob exists.
func (s *Store) HasBlob(digest string) (bool, error) {
	if len(digest) != 2*sha256.Size {
		return false, nil
	}
	_, err := s.dir.Lstat("blobs/sha256/" + digest[:2] + "/" + digest)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// maxSmallBlob bounds what ReadBlob reads.
const maxSmallBlob = 16 << 20

// ReadBlob returns a small blob whole.
func (s *Store) ReadBlob(digest string) ([]byte, error) {
	r, err := s.OpenBlob(digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxSmallBlob+1))
	if err == nil && len(data) > maxSmallBlob {
		err = fmt.Errorf("blob %s is larger than %d bytes", digest, maxSmallBlob)
	}
	return data, err
}

// OpenBlob opens a blob; the reader fails with ErrDigest at the end of bytes
// whose digest is not their name.
func (s *Store) OpenBlob(digest string) (io.ReadCloser, error) {
	if len(digest) != 64 {
		return nil, fmt.Errorf("blob %q: %w", digest, fs.ErrNotExist)
	}
	f, err := s.dir.OpenFile("blobs/sha256/" + digest[:2] + "/" + digest)
	if err != nil {
		return nil, err
	}
	return &blobReader{f: f, sum: sha256.New(), want: digest}, nil
}

// BlobEnd returns at most n bytes of the end of a blob, and whether there is more
// before them. They are not checked: that would take all of the blob.
func (s *Store) BlobEnd(digest string, n int64) (end []byte, cut bool, err error) {
	if len(digest) != 64 {
		return nil, false, fmt.Errorf("blob %q: %w", digest, fs.ErrNotExist)
	}
	f, err := s.dir.OpenFile("blobs/sha256/" + digest[:2] + "/" + digest)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	from := max(0, info.Size()-n)
	end, err = io.ReadAll(io.NewSectionReader(f, from, n))
	return end, from > 0, err
}

type blobReader struct {
	f    *os.File
	sum  hash.Hash
	want string
}

func (r *blobReader) Read(p []byte) (int, error) {
	n, err := r.f.Read(p)
	r.sum.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(r.sum.Sum(nil)) != r.want {
		return n, fmt.Errorf("blob %s: %w", r.want, ErrDigest)
	}
	return n, err
}

func (r *blobReader) Close() error { return r.f.Close() }

// BlobSize returns the disk space of a blob; 0 if there is none.
func (s *Store) BlobSize(digest string) (int64, error) {
	info, err := s.dir.Lstat(blobName(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Blocks * 512, nil
}

// RemoveBlob removes a blob, which need not exist. The caller knows that nothing refers
// to it.
func (s *Store) RemoveBlob(digest string) error {
	if err := s.dir.Remove(blobName(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func blobName(digest string) string { return "blobs/sha256/" + digest[:2] + "/" + digest }

// SweepTemps removes the files of crashed writers: those without a lock.
func (s *Store) SweepTemps() error {
	names, err := s.names("blobs")
	if err != nil {
		return err
	}
	for _, n := range names {
		if !isTemp(n) {
			continue
		}
		f, err := s.dir.OpenFile("blobs/" + n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its writer has ended
		}
		if err != nil {
			return err
		}
		if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
			if err = s.dir.Remove("blobs/" + n); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
