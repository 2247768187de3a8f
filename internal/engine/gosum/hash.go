package gosum

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// maxArchive is what the go command allows for an archive and for its contents.
	maxArchive = 500 << 20
	// maxDirectory bounds what is read to list the files of an archive.
	maxDirectory = 16 << 20
)

// ErrArchive means that a file is no archive that the go command would unpack.
var ErrArchive = errors.New("not a module archive")

// Archive returns the hash of a module archive, as go.sum has it. The error wraps
// ErrArchive if the bytes are at fault.
func Archive(ctx context.Context, r io.ReaderAt, size int64) (string, error) {
	return archiveWithin(ctx, r, size, maxArchive)
}

func archiveWithin(ctx context.Context, r io.ReaderAt, size, limit int64) (string, error) {
	if size > limit {
		return "", fmt.Errorf("%w: it is too large", ErrArchive)
	}
	directory := &reader{ctx: ctx, r: r, left: maxDirectory}
	z, err := zip.NewReader(directory, size)
	if err != nil {
		return "", directory.explain(err)
	}
	slices.SortFunc(z.File, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	directory.left = limit + maxDirectory
	sum, left := sha256.New(), limit
	for i, f := range z.File {
		if i > 0 && z.File[i-1].Name == f.Name || strings.Contains(f.Name, "\n") {
			return "", fmt.Errorf("%w: a name in it is not valid", ErrArchive)
		}
		hash, n, err := ofFile(f, left)
		if err != nil {
			return "", directory.explain(err)
		}
		left -= n
		fmt.Fprintf(sum, "%x  %s\n", hash, f.Name)
	}
	return encode(sum.Sum(nil)), nil
}

// ofFile returns the SHA-256 of one file of an archive, and its length.
func ofFile(f *zip.File, limit int64) ([]byte, int64, error) {
	r, err := f.Open()
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = errors.New("it unpacks to too much")
	}
	return hash.Sum(nil), n, err
}

// Mod returns the hash of a go.mod, as go.sum has it.
func Mod(data []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%x  go.mod\n", sha256.Sum256(data))
	return encode(sum.Sum(nil))
}

func encode(sum []byte) string { return "h1:" + base64.StdEncoding.EncodeToString(sum) }

// reader reads an archive until its context ends, and no more than is left.
type reader struct {
	ctx  context.Context //nolint:containedctx // lives as long as one call
	r    io.ReaderAt
	left int64
	err  error // the first of reading, as opposed to what the bytes mean
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if r.err = r.ctx.Err(); r.err != nil {
		return 0, r.err
	}
	if r.left -= int64(len(p)); r.left < 0 {
		return 0, errors.New("it has too many files")
	}
	n, err := r.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// explain returns the error of reading, or else one that says that the bytes are at fault.
func (r *reader) explain(err error) error {
	if r.err != nil {
		return r.err
	}
	return fmt.Errorf("%w: %w", ErrArchive, err)
}
