package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// input is the uncompressed stream. It counts every byte: without that, an archive
// that was cut off between two entries would look complete.
type input struct {
	source *source
	r      io.Reader
	zstd   decoder
	pos    int64
	marked int64
	header headerTrace
	inside bool  // a header is being read
	taken  int64 // bytes of an entry that were read without the tar reader

	space   func(bytes int64) error // as in ExtractOptions
	entries int64
}

// decoder decompresses a stream.
type decoder interface {
	io.Reader
	Close()
}

// source remembers the first read error, so that a failing disk is not reported as
// a bad archive.
type source struct {
	ctx context.Context //nolint:containedctx // a call's own state
	r   io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// magics recognise common compressions, to name them in the error.
var magics = []struct{ magic, name string }{
	{"\x1f\x8b", "gzip"}, {"BZh", "bzip2"}, {"\xfd7zXZ\x00", "xz"}, {"PK\x03\x04", "zip"},
}

const zstdMagic = "\x28\xb5\x2f\xfd"

func newInput(ctx context.Context, r io.Reader) (*input, error) {
	in := &input{source: &source{ctx: ctx, r: r}}
	buffered := bufio.NewReaderSize(in.source, 256<<10)
	in.r = buffered
	head, err := buffered.Peek(6)
	switch {
	case in.source.err != nil:
		return nil, fmt.Errorf("read archive: %w", in.source.err)
	case len(head) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrArchive)
	case err != nil:
		return nil, fmt.Errorf("%w: it is not a tar archive", ErrArchive)
	case bytes.HasPrefix(head, []byte(zstdMagic)):
		if in.zstd, err = newDecoder(buffered); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrArchive, err)
		}
		in.r = in.zstd
		return in, nil
	}
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return nil, fmt.Errorf("%w: it is compressed with %s; only plain tar and zstd can be read", ErrArchive, m.name)
		}
	}
	return in, nil
}

func (in *input) close() {
	if in.zstd != nil {
		in.zstd.Close()
	}
}

// Read is for the tar reader.
func (in *input) Read(b []byte) (int, error) {
	if in.taken > 0 { // it skips bytes that were already read
		n := min(int64(len(b)), in.taken)
		in.taken -= n
		return int(n), nil
	}
	n, err := in.read(b)
	if in.inside {
		in.header.follow(b[:n])
	}
	return n, err
}

func (in *input) read(b []byte) (int, error) {
	n, err := in.r.Read(b)
	in.pos += int64(n)
	return n, cmp.Or(in.take(), err)
}

// inodeSpace is the disk space that an entry takes besides its contents.
const inodeSpace = 4096

// take reports the disk space that was taken so far.
func (in *input) take() error {
	if in.space == nil {
		return nil
	}
	if in.source.err == nil {
		in.source.err = in.space(in.pos + in.entries*inodeSpace)
	}
	return in.source.err
}

// next reads the header of the next entry. The contents of the one before have
// been read.
func (in *input) next(r *tar.Reader) (*tar.Header, error) {
	in.marked = in.pos
	in.header = headerTrace{skip: -in.pos & (tarBlock - 1), block: in.header.block[:0], list: in.header.list[:0]}
	in.inside = true
	h, err := r.Next()
	in.inside = false
	if err == nil && in.taken > 0 {
		err = tar.ErrHeader
	}
	return h, err
}

// finish checks what comes after the last entry: at least one block of zeros,
// then zeros only.
func (in *input) finish() error {
	after := (in.marked + tarBlock - 1) / tarBlock * tarBlock
	if in.pos < after+tarBlock {
		return fmt.Errorf("%w: it is cut off: the end mark is missing", ErrArchive)
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		for _, c := range buf[:n] {
			if c != 0 {
				return fmt.Errorf("%w: there are bytes after its end", ErrArchive)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// explain returns the error that ended the extraction, with its cause.
func (in *input) explain(err error) error {
	var pathErr *os.PathError
	switch {
	case in.source.err != nil:
		return fmt.Errorf("read archive: %w", in.source.err)
	case errors.Is(err, ErrArchive), errors.As(err, &pathErr), errors.Is(err, in.source.ctx.Err()):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) && in.marked > 0:
		return fmt.Errorf("%w: it is cut off", ErrArchive)
	case in.marked == 0 && (errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF)):
		return fmt.Errorf("%w: it is not a tar archive", ErrArchive)
	}
	return fmt.Errorf("%w: after %d bytes: %w", ErrArchive, in.marked, err)
}

// writing distinguishes errors of the file system from errors of the archive.
type writing struct{ f *os.File }

func (w writing) Write(b []byte) (int, error) { return w.f.Write(b) }

func (x *extractor) copyPlain(f *os.File, h *tar.Header) error {
	n, err := io.CopyBuffer(writing{f}, struct{ io.Reader }{x.tar}, x.buf)
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	return x.copyError(h, err)
}

// copySparse writes a file without its blocks of zeros.
func (x *extractor) copySparse(f *os.File, h *tar.Header) error {
	n, err := fsx.WriteSparse(x.ctx, f, x.tar, nil)
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	return x.copyError(h, err)
}

// copyError names the entry whose contents could not be read or written.
func (x *extractor) copyError(h *tar.Header, err error) error {
	var pathErr *os.PathError
	switch {
	case err == nil, errors.As(err, &pathErr):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(h.Name, "the archive is cut off in this entry")
	}
	return fmt.Errorf("%w: entry %s: %w", ErrArchive, quote.Path(h.Name), err)
}
