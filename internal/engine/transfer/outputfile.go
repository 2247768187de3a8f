package transfer

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// outputFile is a file that a command was asked to write. It appears whole or not
// at all, and never replaces another.
type outputFile struct {
	*os.File
	path string
	temp string
}

// WriteBundle writes a bundle to a file that a command was asked to write, and returns its
// size. One that is called .html is a page for people with the bundle in it.
func WriteBundle(path string, data []byte) (size int64, err error) {
	if strings.HasSuffix(path, ".html") {
		b, err := receipt.ParseBundle(bytes.NewReader(data))
		if err != nil {
			return 0, err
		}
		var page bytes.Buffer
		if err := receipt.WritePage(&page, b); err != nil {
			return 0, err
		}
		data = page.Bytes()
	}
	return int64(len(data)), WriteOutput(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteOutput writes a file that a command was asked to write, whole or not at all. It
// never replaces another. write fills it.
func WriteOutput(path string, write func(io.Writer) error) error {
	out, err := createOutput(path)
	if err != nil {
		return err
	}
	if err := write(out); err != nil {
		if _, told := errors.AsType[*api.Error](err); told {
			_ = out.fail(err)
			return err
		}
		return out.fail(err)
	}
	return out.commit()
}

func createOutput(path string) (*outputFile, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, api.Refusef(api.CodeExists, "remove it, or choose another name", "%s exists already", quote.Path(path))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, api.Usagef("", "%s: %v", quote.Path(path), quote.Cause(err))
	}
	temp := filepath.Join(filepath.Dir(path), "."+store.NewID("forkcell"))
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, api.Usagef("", "%s: %v", quote.Path(path), quote.Cause(err))
	}
	return &outputFile{File: f, path: path, temp: temp}, nil
}

// fail drops the file and says why.
func (o *outputFile) fail(err error) error {
	_ = o.Close()
	_ = os.Remove(o.temp)
	return api.Failf(api.CodeOutput, err, "write %s", quote.Path(o.path))
}

// commit makes the file durable under its name.
func (o *outputFile) commit() error {
	if err := o.Sync(); err != nil {
		return o.fail(err)
	}
	if err := o.Close(); err != nil {
		return o.fail(err)
	}
	// Link, unlike rename, never replaces a file that was created meanwhile.
	err := os.Link(o.temp, o.path)
	if rm := os.Remove(o.temp); err == nil {
		err = rm
	}
	if err != nil {
		return api.Failf(api.CodeOutput, err, "write %s", quote.Path(o.path))
	}
	dir, err := os.Open(filepath.Dir(o.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
