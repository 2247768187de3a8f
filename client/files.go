package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/api/sse"
)

// Files reads and changes the files of a cell. A path is relative to the workspace, or
// absolute in the cell. Files of an idle cell can be read; a change needs a live one.
type Files struct{ cell *Cell }

// Files returns the files of the cell.
func (c *Cell) Files() *Files { return &Files{c} }

func (f *Files) at(o op.Verb, path string, query url.Values) string {
	query.Set("path", path)
	return o.At(f.cell.Name) + "?" + query.Encode()
}

// Read returns the content of a file of at most 256 MiB. Open returns a longer one.
func (f *Files) Read(ctx context.Context, path string) ([]byte, error) {
	in, err := newCall(http.MethodGet, f.at(op.ReadFile, path, url.Values{}), nil, nil)
	if err != nil {
		return nil, err
	}
	in.header.Set("Accept", typeBytes)
	resp, err := f.cell.client.send(ctx, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.ContentLength > maxDocument {
		return nil, tooLong()
	}
	return readAll(resp.Body)
}

// Open returns the content of a file from an offset on. The caller closes it.
func (f *Files) Open(ctx context.Context, path string, offset int64) (io.ReadCloser, error) {
	return f.cell.client.open(ctx, f.at(op.ReadFile, path, url.Values{}), func(in *call) {
		in.header.Set("Accept", typeBytes)
		if offset > 0 {
			in.header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
		}
	})
}

// Archive returns a directory with everything in it as a tar archive. The caller
// closes it.
func (f *Files) Archive(ctx context.Context, path string) (io.ReadCloser, error) {
	return f.cell.client.open(ctx, f.at(op.ReadFile, path, url.Values{}), func(in *call) { in.header.Set("Accept", typeTar) })
}

// Write replaces a file by the bytes of content, and makes the directories above it.
// With mode 0 the permission bits stay; those of a new file are 0644.
func (f *Files) Write(ctx context.Context, path string, content io.Reader, mode fs.FileMode) (*FileInfo, error) {
	query := url.Values{}
	if mode != 0 {
		query.Set("mode", fmt.Sprintf("%04o", mode.Perm()))
	}
	in, err := newCall(http.MethodPut, f.at(op.WriteFile, path, query), nil, nil)
	if err != nil {
		return nil, err
	}
	in.stream = content
	in.header.Set("Content-Type", typeBytes)
	return receive[FileInfo](ctx, f.cell.client, in)
}

// List returns the entries of a directory and of so many levels below it.
func (f *Files) List(ctx context.Context, path string, depth int) ([]FileInfo, error) {
	list, err := ask(ctx, f.cell.client, op.ListFiles, api.ListFilesRequest{Cell: f.cell.Name, Path: path, Depth: depth}, nil)
	if err != nil {
		return nil, err
	}
	return list.Entries, nil
}

// Stat describes a file.
func (f *Files) Stat(ctx context.Context, path string) (*FileInfo, error) {
	return ask(ctx, f.cell.client, op.StatFile, api.FileRequest{Cell: f.cell.Name, Path: path}, nil)
}

// Mkdir makes a directory, and those above it.
func (f *Files) Mkdir(ctx context.Context, path string) (*FileInfo, error) {
	return ask(ctx, f.cell.client, op.MakeDir, api.FileRequest{Cell: f.cell.Name, Path: path}, nil)
}

// Move gives a file another path. A file there is replaced.
func (f *Files) Move(ctx context.Context, from, to string) (*FileInfo, error) {
	return ask(ctx, f.cell.client, op.MoveFile, api.MoveFileRequest{Cell: f.cell.Name, From: from, To: to}, nil)
}

// Remove removes a file or an empty directory; with recursive, also one that is not
// empty.
func (f *Files) Remove(ctx context.Context, path string, recursive bool) error {
	query := url.Values{}
	if recursive {
		query.Set("recursive", "true")
	}
	in, err := newCall(http.MethodDelete, f.at(op.RemoveFile, path, query), nil, nil)
	if err != nil {
		return err
	}
	_, err = receive[struct{}](ctx, f.cell.client, in)
	return err
}

// Watch returns the changes in a directory of a live cell as they happen, until the
// context ends. The first event, started, says that the watch has begun. Changes while
// a connection is lost cannot be told, so that a lost one is an error.
func (f *Files) Watch(ctx context.Context, path string, recursive bool) iter.Seq2[FileEvent, error] {
	return func(yield func(FileEvent, error) bool) {
		in, err := newCall(http.MethodPost, op.WatchFiles.At(f.cell.Name), api.WatchBody{Path: path, Recursive: recursive}, nil)
		if err != nil {
			yield(FileEvent{}, err)
			return
		}
		err = f.cell.client.events(ctx, in, func(m sse.Event) error {
			var change FileEvent
			if err := decode(m, &change); err != nil {
				return err
			}
			if !yield(change, nil) {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			yield(FileEvent{}, err)
		}
	}
}
