package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/sandbox/incell/files"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Paths of files in a cell are relative to its workspace, or absolute in the cell. In
// a live cell a program in the cell opens them; of any other cell the head is read.

// cellPath checks a path of a file in a cell.
func cellPath(p string) (string, error) {
	switch {
	case strings.ContainsRune(p, 0), len(p) > 4095:
		return "", api.Usagef("", "malformed path %s", quote.Path(p))
	case slices.Contains(strings.Split(p, "/"), ".."):
		return "", api.Usagef("give an absolute path", "the path %s has the component ..", quote.Path(p))
	}
	return path.Clean(p), nil
}

// File is an open file of a cell.
type File struct {
	Info    api.FileInfo
	Content io.ReadSeeker
	close   func() error
}

// Close closes the file.
func (f *File) Close() error { return f.close() }

// findFiles finds the cell of a request for files; the client is nil if the cell is not live.
func (e *Exchange) findFiles(ctx context.Context, cell, p string) (*supervise.Client, store.Cell, string, error) {
	p, err := cellPath(p)
	if err != nil {
		return nil, store.Cell{}, "", err
	}
	client, c, err := e.live.EnterIfLive(ctx, cell)
	if err == nil && c.Paused != nil {
		err = home.PausedCell(c.Name)
	}
	return client, c, p, err
}

// OpenFile opens a file of a cell for reading. Links are followed, inside the cell.
func (e *Exchange) OpenFile(ctx context.Context, cell, p string) (*File, error) {
	client, c, p, err := e.findFiles(ctx, cell, p)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return e.openStateFile(c, p)
	}
	return openLiveFile(ctx, client, p)
}

// openLiveFile reads a small file at once, and lets the program in the cell serve any
// other until it is closed.
func openLiveFile(ctx context.Context, client *supervise.Client, p string) (*File, error) {
	info, content, err := client.ReadSmall(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case info == nil:
		return serveLiveFile(ctx, client, p)
	}
	info.Path = p
	return &File{Info: *info, Content: bytes.NewReader(content), close: func() error { return nil }}, nil
}

func serveLiveFile(ctx context.Context, client *supervise.Client, p string) (*File, error) {
	ctx, cancel := context.WithCancel(ctx)
	requests, ask := io.Pipe()
	from, answers := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := client.Files(ctx, requests, answers, files.Read, p)
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		_ = answers.CloseWithError(err)
		_ = requests.CloseWithError(err)
	}()
	f := &File{close: func() error {
		_ = ask.Close()
		_ = from.Close()
		cancel()
		<-done
		return nil
	}}
	r, err := files.NewReader(ask, from)
	if err == nil {
		err = checkInfo(&r.Info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r.Info.Path = p
	f.Info, f.Content = r.Info, r
	return f, nil
}

var octalMode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-7]{4}$`) })

// checkInfo refuses a description that the program in the cell cannot have made.
func checkInfo(i *api.FileInfo) error {
	if i.Size < 0 || !octalMode().MatchString(i.Mode) || !slices.Contains([]string{"file", "dir", "symlink", "other"}, i.Type) {
		return malformedAnswer()
	}
	if i.Target != nil && len(*i.Target) > files.MaxPath {
		return malformedAnswer()
	}
	return checkPath(i.Path)
}

// checkBelow refuses a path that is not in the directory that was asked about.
func checkBelow(p string) error {
	if p != "" && !filepath.IsLocal(p) {
		return malformedAnswer()
	}
	return nil
}

// checkPath refuses a path that the kernel could not have taken.
func checkPath(p string) error {
	if len(p) > files.MaxPath {
		return malformedAnswer()
	}
	return nil
}

func malformedAnswer() error {
	return &api.Error{Kind: api.Failed, Code: api.CodeCopy, Message: "malformed answer from the cell"}
}

// StatFile describes a file. A link is not followed.
func (e *Exchange) StatFile(ctx context.Context, cell, p string) (*api.FileInfo, error) {
	client, c, p, err := e.findFiles(ctx, cell, p)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return e.statStateFile(c, p)
	}
	return fileOperation(ctx, client, nil, files.Stat, p)
}

// maxFileLine bounds a line of the program in the cell.
const maxFileLine = 64 << 10

// fileOperation lets the program in the cell carry out an operation that answers with
// what a file is then.
func fileOperation(ctx context.Context, client *supervise.Client, in io.Reader, operation string, args ...string) (*api.FileInfo, error) {
	var out boundedBuffer
	if err := client.Files(ctx, in, &out, operation, args...); err != nil {
		return nil, err
	}
	var info api.FileInfo
	if err := json.Unmarshal(out.Bytes(), &info); err != nil {
		return nil, malformedAnswer()
	}
	info.Path = args[len(args)-1]
	if operation == files.Write || operation == files.Stat || operation == files.Mkdir {
		info.Path = args[0]
	}
	return &info, checkInfo(&info)
}

// boundedBuffer keeps the beginning of what is written to it.
type boundedBuffer struct{ bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), maxFileLine-b.Len())])
	return len(p), nil
}

// ListFiles calls each with the files in a directory, and below it up to a depth.
func (e *Exchange) ListFiles(ctx context.Context, cell, p string, depth int, each func(api.FileInfo) error) error {
	client, c, p, err := e.findFiles(ctx, cell, p)
	if err != nil {
		return err
	}
	if client == nil {
		return e.listStateFiles(ctx, c, p, depth, true, each)
	}
	return eachLine(ctx, client, boundedList(p, each), files.List, p, strconv.Itoa(max(depth, 1)))
}

// boundedList checks the list of a directory that a program in a cell answers with: a list
// is held in memory.
func boundedList(dir string, each func(api.FileInfo) error) func(api.FileInfo) error {
	var size files.Size
	return func(info api.FileInfo) error {
		if err := cmp.Or(checkInfo(&info), checkBelow(info.Path)); err != nil {
			return err
		}
		if size.Add(info) != nil {
			return malformedAnswer() // the program would have refused it
		}
		info.Path = path.Join(dir, info.Path)
		return each(info)
	}
}

// WatchFiles calls each with the changes in a directory of a live cell until ctx
// ends. The first event says that the watch has begun.
func (e *Exchange) WatchFiles(ctx context.Context, cell, p string, recursive bool, each func(api.FileEvent) error) error {
	client, p, err := e.findWritable(ctx, cell, p)
	if err != nil {
		return err
	}
	return eachLine(ctx, client, func(v api.FileEvent) error {
		switch v.Event {
		case "created", "modified", "removed", "renamed":
			if err := cmp.Or(checkBelow(v.Path), checkBelow(v.From)); err != nil {
				return err
			}
			v.Path = path.Join(p, v.Path)
			if v.From != "" {
				v.From = path.Join(p, v.From)
			}
		case "started", "overflow":
			v = api.FileEvent{Event: v.Event}
		default:
			return malformedAnswer()
		}
		if err := cmp.Or(checkPath(v.Path), checkPath(v.From)); err != nil {
			return err
		}
		return each(v)
	}, files.Watch, p, strconv.FormatBool(recursive))
}

// eachLine carries out an operation that answers with JSON lines.
func eachLine[T any](ctx context.Context, client *supervise.Client, each func(T) error, operation string, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, never := io.Pipe() // the input ends when the caller goes
	defer never.Close()
	from, out := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		err := decodeLines(from, each)
		if err != nil {
			cancel()
		}
		_ = from.CloseWithError(io.ErrClosedPipe)
		failed <- err
	}()
	err := client.Files(ctx, in, out, operation, args...)
	_ = out.Close()
	if lineErr := <-failed; lineErr != nil {
		return lineErr
	}
	return err
}

func decodeLines[T any](from io.Reader, each func(T) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxFileLine)
	for lines.Scan() {
		var v T
		if json.Unmarshal(lines.Bytes(), &v) != nil {
			return malformedAnswer()
		}
		if err := each(v); err != nil {
			return err
		}
	}
	if lines.Err() != nil {
		return malformedAnswer()
	}
	return nil
}

// findWritable finds the live cell of a request that changes files.
func (e *Exchange) findWritable(ctx context.Context, cell, p string) (*supervise.Client, string, error) {
	p, err := cellPath(p)
	if err != nil {
		return nil, "", err
	}
	client, err := e.live.EnterLive(ctx, cell)
	return client, p, err
}

// WriteFile replaces a file of a live cell, by all of the contents or not at all.
// Missing directories above it are made. mode is octal; "" keeps that of the file.
func (e *Exchange) WriteFile(ctx context.Context, cell, p, mode string, contents io.Reader) (*api.FileInfo, error) {
	client, p, err := e.findWritable(ctx, cell, p)
	if err != nil {
		return nil, err
	}
	if mode != "" && !regexp.MustCompile(`^0?[0-7]{1,3}$`).MatchString(mode) {
		return nil, api.Usagef("write it as 0644", "malformed mode %s", quote.Arg(mode))
	}
	in, to := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := files.Send(to, contents)
		_ = to.CloseWithError(err)
		sent <- err
	}()
	info, err := fileOperation(ctx, client, in, files.Write, p, mode)
	_ = in.CloseWithError(io.ErrClosedPipe)
	if sendErr := <-sent; sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) {
		return nil, sendErr
	}
	return info, err
}

// RemoveFile removes a file or a directory of a live cell. A directory with files is
// removed only if recursive is set.
func (e *Exchange) RemoveFile(ctx context.Context, cell, p string, recursive bool) error {
	client, p, err := e.findWritable(ctx, cell, p)
	if err != nil {
		return err
	}
	return client.Files(ctx, nil, io.Discard, files.Remove, p, strconv.FormatBool(recursive))
}

// MakeDir makes a directory of a live cell, and those above it.
func (e *Exchange) MakeDir(ctx context.Context, cell, p string) (*api.FileInfo, error) {
	client, p, err := e.findWritable(ctx, cell, p)
	if err != nil {
		return nil, err
	}
	return fileOperation(ctx, client, nil, files.Mkdir, p)
}

// MoveFile gives a file or a directory of a live cell another path.
func (e *Exchange) MoveFile(ctx context.Context, cell, from, to string) (*api.FileInfo, error) {
	client, from, err := e.findWritable(ctx, cell, from)
	if err != nil {
		return nil, err
	}
	if to, err = cellPath(to); err != nil {
		return nil, err
	}
	return fileOperation(ctx, client, nil, files.Move, from, to)
}

// TarFiles writes a file or a directory, with everything below it, as a tar archive.
// begin is called before the first byte.
func (e *Exchange) TarFiles(ctx context.Context, cell, p string, begin func() io.Writer) error {
	client, c, p, err := e.findFiles(ctx, cell, p)
	if err != nil {
		return err
	}
	receive := func(r io.Reader) error { return carry.Archive(r, begin) }
	if client == nil {
		_, err := e.sendState(ctx, c, p, receive)
		return err
	}
	_, err = client.CopyOut(ctx, p, home.CellHome, receive)
	return err
}
