package remote

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Diff compares two states. The daemon writes patches.
func (e *Engine) Diff(ctx context.Context, r api.DiffRequest) (*engine.DiffResult, error) {
	q := url.Values{}
	from, to := r.From, r.To
	if r.State != "" {
		// The state of the cell is compared with FROM, or with the present one.
		state, err := e.stateID(ctx, r.Cell, r.State)
		if err != nil {
			return nil, err
		}
		from, to = state, r.From
	}
	if r.SinceApply && from+to+r.Run == "" {
		applied, err := e.appliedHere(ctx, r.Cell)
		if err != nil {
			return nil, err
		}
		from, r.SinceApply = applied, applied == ""
	}
	for key, value := range map[string]string{"run": r.Run, "from": from, "to": to} {
		if value != "" {
			q.Set(key, value)
		}
	}
	for key, on := range map[string]bool{"since_apply": r.SinceApply, "all": r.All} {
		if on {
			q.Set(key, "true")
		}
	}
	q["path"] = r.Paths
	path := op.Diff.At(r.Cell) + "?" + q.Encode()
	doc, err := get[api.DiffResult](ctx, e, path)
	if err != nil {
		return nil, err
	}
	res := &engine.DiffResult{DiffResult: *doc, Text: func(stat bool) (io.ReadCloser, error) {
		format := "patch"
		if stat {
			format = "stat"
		}
		return e.openText(ctx, path+"&format="+format)
	}}
	for _, ch := range doc.Changes {
		raw, err := change(ch)
		if err != nil {
			return nil, malformed(err)
		}
		res.Raw = append(res.Raw, raw)
	}
	for _, ch := range doc.SetAside {
		raw, err := change(ch)
		if err != nil {
			return nil, malformed(err)
		}
		res.RawAside = append(res.RawAside, raw)
	}
	res.Changes = nil
	return res, nil
}

// stateID returns the id of a checkpoint by its name, so that it is not taken for a
// cell of that name. What is not such a name stays.
func (e *Engine) stateID(ctx context.Context, cell, ref string) (string, error) {
	states, err := pages[api.CheckpointInfo](ctx, e, op.ListCheckpoints.At(cell))
	for _, s := range states {
		if slices.Contains(s.Names, ref) {
			return s.CheckpointID, err
		}
	}
	return ref, err
}

// openText returns the answer to a request for text.
func (e *Engine) openText(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := e.send(ctx, http.MethodGet, path, "text/plain", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// change returns a change as far as its document has it.
func change(ch api.ChangeJSON) (tree.Change, error) {
	out := tree.Change{Path: ch.Path, Kind: tree.ChangeKind(ch.Change), OldPath: ch.OldPath}
	if ch.PathBase64 != "" {
		exact, err := base64.StdEncoding.DecodeString(ch.PathBase64)
		if err != nil {
			return out, err
		}
		out.Path = string(exact)
	}
	var err error
	if out.Kind != tree.Added {
		if out.Old, err = entry(ch.Type, ch.OldDigest, out.Kind == tree.TypeChanged); err != nil {
			return out, err
		}
	}
	if out.Kind != tree.Deleted {
		out.New, err = entry(ch.Type, ch.NewDigest, false)
	}
	return out, err
}

// entry returns one side of a change. Of a side with another type only the digest is
// known, which files have.
func entry(kind, digest string, other bool) (*tree.Entry, error) {
	e := &tree.Entry{Kind: tree.KindDir}
	for _, k := range []tree.Kind{tree.KindFile, tree.KindSymlink, tree.KindFifo, tree.KindSocket} {
		if !other && k.String() == kind || digest != "" && k == tree.KindFile {
			e.Kind = k
		}
	}
	if digest == "" {
		return e, nil
	}
	var err error
	e.Digest, err = tree.ParseHash(digest)
	return e, err
}
