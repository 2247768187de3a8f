package engine

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// DefaultOutputOlderThan is how long gc keeps what runs have printed.
const DefaultOutputOlderThan = 30 * 24 * time.Hour

// freeOutputs marks the runs whose stored output is old, and returns the digests of what
// no other run refers to, also those that an earlier gc has left.
func (e *Engine) freeOutputs(tx *store.Tx, req api.GCRequest, res *api.GCResult) (unused []string, err error) {
	exists, err := e.keptCells(tx, req)
	if err != nil {
		return nil, err
	}
	runs, err := tx.Runs("")
	if err != nil {
		return nil, err
	}
	used, freed := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		of := used
		switch {
		case r.OutputFreed:
			of = freed
		case r.State != "done" || r.Stdout+r.Stderr == "" || !e.outputIsOld(req, r, exists[r.CellID]):
		default:
			of = freed
			res.Outputs++
			r.OutputFreed, r.OutputBytes = true, 0
			if req.DryRun {
				break
			}
			if err := tx.PutRun(r); err != nil {
				return nil, err
			}
		}
		of[r.Stdout], of[r.Stderr] = true, true
		used[r.Policy], used[r.Ceiling] = true, true
	}
	delete(freed, "")
	maps.DeleteFunc(freed, func(digest string, _ bool) bool { return used[digest] })
	return slices.Sorted(maps.Keys(freed)), nil
}

// outputIsOld reports whether the output of a finished run may be freed. That of a
// removed cell goes with the states of the cell. A time in the future counts as recent,
// unless the request is for everything.
func (e *Engine) outputIsOld(req api.GCRequest, r store.Run, exists bool) bool {
	keep := cmp.Or(req.OutputOlderThan, DefaultOutputOlderThan)
	if !exists {
		keep = min(keep, req.OlderThan)
	}
	return keep <= 0 || e.Now().Sub(r.FinishedAt) >= keep
}

// sweepOutputs removes outputs that nothing refers to, and returns their disk space. A
// command may have printed the text of a policy, which is kept under the same digest:
// that stays.
func (e *Engine) sweepOutputs(digests []string, dryRun bool) (total int64, err error) {
	for _, digest := range digests {
		size, err := e.Store.BlobSize(digest)
		if err != nil {
			return total, err
		}
		if size == 0 {
			continue
		}
		if keep, err := e.isPolicy(digest); err != nil || keep {
			if err != nil {
				return total, err
			}
			continue
		}
		total += size
		if dryRun {
			continue
		}
		if err := e.Store.RemoveBlob(digest); err != nil {
			return total, err
		}
	}
	return total, nil
}

// maxPolicyText bounds what may be the canonical text of a policy.
const maxPolicyText = 1 << 20

// isPolicy reports whether a blob is the canonical text of a policy.
func (e *Engine) isPolicy(digest string) (bool, error) {
	f, err := e.Store.OpenBlob(digest)
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPolicyText+1))
	if err != nil || len(text) > maxPolicyText {
		return false, nil //nolint:nilerr // damaged output is no policy
	}
	p, err := policy.Parse("output", text, policy.Options{})
	return err == nil && bytes.Equal(p.Canonical(), text), nil
}
