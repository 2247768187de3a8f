package supervise

import (
	"context"
	"errors"
	"path"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/incell/files"
)

// A small file is read without a process: the cell's first process opens it, and the
// supervisor reads it. Everything else is left to the program in the cell.

type readCall struct {
	Path []byte `json:"path"`
}

// readResult has the file, unless it must be read by the program in the cell.
type readResult struct {
	Info    *api.FileInfo `json:"info,omitempty"`
	Content []byte        `json:"content,omitempty"`
}

// read reads a small file of the cell.
func (h *Host) read(q readCall) (*readResult, error) {
	opener, ok := h.Cell.(driver.Opener)
	if !ok {
		return &readResult{}, nil
	}
	at := string(q.Path)
	if !path.IsAbs(at) {
		at = path.Join(h.MountAt, at)
	}
	h.starting.RLock() // a frozen cell opens nothing
	defer h.starting.RUnlock()
	if err := h.beginCommand(); err != nil {
		return nil, err
	}
	defer h.endCommand()
	f, err := opener.Open(at)
	if err != nil {
		return &readResult{}, nil // the program in the cell finds out why
	}
	defer func() { _ = f.Close() }()
	info, content, err := files.Small(f)
	if err != nil {
		return &readResult{}, nil // likewise
	}
	return &readResult{Info: &info, Content: content}, nil
}

// ReadSmall reads a small file of the cell. info is nil if the program in the cell
// has to read it: see Files.
func (c *Client) ReadSmall(ctx context.Context, path string) (info *api.FileInfo, content []byte, err error) {
	var res readResult
	err = c.call(ctx, callRead, readCall{Path: []byte(path)}, &res)
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeUnknownCall {
		return nil, nil, nil // an older supervisor
	}
	return res.Info, res.Content, err
}
