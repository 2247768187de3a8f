package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// SendCopy writes a file or a directory of a cell, with everything below it, as a copy
// stream, for a receiver on another machine. begin is called before the first byte. The
// notes name what was left out or dropped.
func (e *Exchange) SendCopy(ctx context.Context, cell, p string, begin func() io.Writer) ([]string, error) {
	client, c, p, err := e.findFiles(ctx, cell, p)
	if err != nil {
		return nil, err
	}
	if client != nil {
		return client.CopyOut(ctx, p, home.CellHome, func(r io.Reader) error { return passOn(r, begin) })
	}
	s, err := e.sendState(ctx, c, p, func(r io.Reader) error { return passOn(r, begin) })
	if err != nil {
		return nil, err
	}
	return copyResult(api.CopyRequest{}, false, s.out.Totals, s.lost.notes()).Notes, nil
}

// passOn copies a stream. The receiver checks it; an empty one counts as none.
func passOn(r io.Reader, begin func() io.Writer) error {
	from := bufio.NewReaderSize(r, 64<<10)
	if _, err := from.Peek(1); err != nil {
		return fmt.Errorf("%w: %w", carry.ErrStream, err)
	}
	_, err := io.Copy(begin(), from)
	return err
}

// TakeCopy copies a file or a directory into a live cell, from a copy stream of another
// machine, which the program in the cell checks. name is that of the copy if the path is
// a directory.
func (e *Exchange) TakeCopy(ctx context.Context, cell, p, name string, r io.Reader) ([]string, error) {
	client, at, err := e.findWritable(ctx, cell, p)
	if err != nil {
		return nil, err
	}
	if name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, api.Usagef("", "malformed name %s", quote.Arg(name))
	}
	if strings.HasSuffix(p, "/") {
		at += "/" // it must be a directory
	}
	warnings, err := client.CopyIn(ctx, at, name, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	// The program in the cell reads the stream, and says what is wrong with it.
	if told, ok := errors.AsType[*api.Error](err); ok && told.Code == api.CodeCopy && strings.Contains(told.Message, carry.ErrStream.Error()) {
		return nil, api.Usagef("send all of what a copy out of a cell is", "%s", told.Message)
	}
	return append([]string{}, warnings...), err
}
