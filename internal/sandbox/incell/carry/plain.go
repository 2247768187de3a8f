package carry

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// maxZeros bounds the holes of all files in an archive. They are zeros there, and a few
// bytes of a stream can stand for any number.
const maxZeros = 16 << 30

// Archive turns a stream into an ordinary tar archive, without owners and with every
// hole as zeros. What is copied is called ".", or, if it is no directory, "file".
//
// The archive is safe to unpack where an honest one is: its entries make one tree, in
// which nothing is below a link, and a size of a file is that of its contents.
// begin is called when the stream has proved to be one, before the first byte of the
// archive.
func Archive(r io.Reader, begin func() io.Writer) error {
	in := tar.NewReader(r)
	var out *tar.Writer
	var entries order
	zeros := int64(maxZeros)
	for {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: it was cut short", ErrStream)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrStream, err)
		case h.Name == endName && out != nil:
			return out.Close()
		}
		rel, err := relative(h.Name)
		if err == nil && (rel == "") == (out != nil) {
			err = fmt.Errorf("%w: %q is out of place", ErrStream, h.Name)
		}
		if err != nil {
			return err
		}
		e, err := saidOf(h, rel)
		if err == nil {
			err = entries.take(e)
		}
		if err == nil {
			zeros -= max(0, e.Size-h.Size)
			if zeros < 0 {
				err = fmt.Errorf("%w: its files have holes of more than %d GiB", ErrStream, maxZeros>>30)
			}
		}
		if err != nil {
			return err
		}
		if out == nil {
			out = tar.NewWriter(begin())
		}
		if err := archiveEntry(out, in, h, e); err != nil {
			return err
		}
	}
}

func archiveEntry(out *tar.Writer, in *tar.Reader, h *tar.Header, e Entry) error {
	to := &tar.Header{Format: tar.FormatPAX, Typeflag: h.Typeflag, Name: e.Path, Mode: int64(e.Mode & permissions), ModTime: e.Mtime}
	switch {
	case h.Typeflag == tar.TypeDir:
		to.Name = "./" + e.Path
		if e.Path != "" {
			to.Name = e.Path + "/"
		}
		return out.WriteHeader(to)
	case e.Path == "":
		to.Name = "file"
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		to.Linkname = e.Target
		return out.WriteHeader(to)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%w: %q is of type %q", ErrStream, h.Name, h.Typeflag)
	}
	to.Size = e.Size
	if err := out.WriteHeader(to); err != nil {
		return err
	}
	if _, sparse := h.PAXRecords[recordSize]; sparse {
		return fillHoles(out, in, e.Size)
	}
	_, err := io.Copy(out, in)
	return err
}

// fillHoles writes a file whose holes were not sent.
func fillHoles(out io.Writer, in io.Reader, size int64) error {
	list, err := fsx.DecodeExtents(in, size)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStream, err)
	}
	at := int64(0)
	for _, x := range list {
		if _, err := io.CopyN(out, zeros{}, x.Off-at); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, x.Len); err != nil {
			return fmt.Errorf("%w: %w", ErrStream, err)
		}
		at = x.Off + x.Len
	}
	_, err = io.CopyN(out, zeros{}, size-at)
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
