package remote

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/home"
)

// Fork makes new cells on one state.
func (e *Engine) Fork(ctx context.Context, r api.ForkRequest) (*api.ForkResult, error) {
	var made api.ForkedCells
	err := e.ask(ctx, http.MethodPost, op.ForkCell.At(r.Cell),
		api.ForkBody{Name: r.Name, N: r.N, Checkpoint: r.Checkpoint, CellSettings: settingsBody(r.Settings)}, &made)
	if err != nil {
		return nil, err
	}
	res := &api.ForkResult{From: made.From, CheckpointID: made.CheckpointID, Root: made.Root, Cells: []string{}, EngineUS: made.EngineUS, PauseUS: made.PauseUS, PendingRuns: made.PendingRuns}
	for _, c := range made.Cells {
		res.Cells = append(res.Cells, c.Cell)
	}
	return res, nil
}

func settingsBody(s api.Settings) api.CellSettings {
	return api.CellSettings{Labels: s.Labels, TTL: duration(time.Duration(s.TTL)), IdleTimeout: duration(time.Duration(s.IdleTimeout)), OnTimeout: s.OnTimeout}
}

// duration returns the text of a duration; 0 is "".
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Status returns everything about a cell.
func (e *Engine) Status(ctx context.Context, cell string) (*api.StatusResult, error) {
	return asEngineError(e.client.Cells.Named(cell).Status(ctx))
}

// ListMatching lists cells.
func (e *Engine) ListMatching(ctx context.Context, f api.CellFilter) ([]api.CellInfo, error) {
	list, err := all(e.client.Cells.List(ctx, client.CellFilter{State: f.State}))
	return slices.DeleteFunc(list, func(c api.CellInfo) bool {
		for key, value := range f.Labels {
			if has, ok := c.Labels[key]; !ok || has != value {
				return true
			}
		}
		return !strings.HasPrefix(c.Name, f.Prefix)
	}), err
}

// Update changes the name and the settings of a cell.
func (e *Engine) Update(ctx context.Context, r api.UpdateRequest) (*api.CellInfo, error) {
	body := map[string]any{}
	if r.Name != "" {
		body["name"] = r.Name
	}
	if r.DropLabels || len(r.Labels) > 0 {
		// The request has all labels.
		now, err := e.Status(ctx, r.Cell)
		if err != nil {
			return nil, err
		}
		body["labels"] = changedLabels(now.Labels, r)
	}
	if r.OnTimeout != nil {
		body["on_timeout"] = orNull(*r.OnTimeout)
	}
	for key, limit := range map[string]*api.Duration{"ttl": r.TTL, "idle_timeout": r.IdleTimeout} {
		if limit != nil {
			body[key] = orNull(duration(time.Duration(*limit)))
		}
	}
	var info api.CellInfo
	return &info, e.ask(ctx, http.MethodPatch, op.UpdateCell.At(r.Cell), body, &info)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// changedLabels returns the labels of a cell after a change.
func changedLabels(now map[string]string, r api.UpdateRequest) map[string]string {
	labels := map[string]string{}
	if !r.DropLabels {
		maps.Copy(labels, now)
	}
	for key, value := range r.Labels {
		if value == nil {
			delete(labels, key)
		} else {
			labels[key] = *value
		}
	}
	return labels
}

// Rename changes the name of a cell.
func (e *Engine) Rename(ctx context.Context, cell, to string) error {
	_, err := e.Update(ctx, api.UpdateRequest{Cell: cell, Name: to})
	return err
}

// RemoveAll removes cells. All of them must exist, or none is removed. Those that are
// in use come first. If one is refused, those before it are brought back.
func (e *Engine) RemoveAll(ctx context.Context, cells []string, force bool) error {
	return e.RemoveCells(ctx, api.RemoveRequest{Cells: cells, Force: force})
}

// RemoveCells removes cells, as RemoveAll does.
func (e *Engine) RemoveCells(ctx context.Context, r api.RemoveRequest) error {
	if r.Stop && !r.Force {
		return e.removeEach(ctx, r.Cells, func(name string) error { return e.client.Sessions.Named(name).Remove(ctx, false) })
	}
	return e.removeEach(ctx, r.Cells, func(name string) error {
		var opts []client.CallOption
		if !r.Force {
			applied, err := e.appliedHere(ctx, name)
			if err != nil {
				return err
			}
			opts = append(opts, client.Applied(applied))
		}
		if r.Now {
			opts = append(opts, client.NotKept())
		}
		return e.client.Cells.Named(name).Remove(ctx, r.Force, opts...)
	})
}

// Undelete brings back a removed cell, and what this machine keeps of it.
func (e *Engine) Undelete(ctx context.Context, cell string) (*api.CellInfo, error) {
	info, err := asEngineError(e.client.Cells.Named(cell).Undelete(ctx))
	if err != nil || e.client.Local() {
		return info, err
	}
	h, release, err := e.homes.Mirrors(true)
	if err != nil {
		return nil, err
	}
	if _, err = h.Undelete(ctx, info.CellID); api.KindOf(err) == api.NotFound {
		err = nil // nothing was kept here
	}
	return info, errors.Join(err, release())
}

func (e *Engine) removeEach(ctx context.Context, cells []string, remove func(name string) error) error {
	var used, idle, ids []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(cells))) {
		status, err := e.Status(ctx, name)
		if err != nil {
			return err
		}
		ids = append(ids, status.CellID)
		if status.State == api.StateIdle {
			idle = append(idle, name)
		} else {
			used = append(used, name)
		}
	}
	order := slices.Concat(used, idle)
	for i, name := range order {
		if err := failure(remove(name)); err != nil {
			if back := e.bringBack(ctx, order[:i]); back != nil {
				return errors.Join(err, back)
			}
			return err
		}
	}
	if e.client.Local() {
		return nil
	}
	return e.removeMirrors(ctx, ids)
}

// bringBack undoes the removal of cells: of several, all are removed or none. One that was
// not kept is gone.
func (e *Engine) bringBack(ctx context.Context, names []string) error {
	var errs []error
	for _, name := range names {
		if _, err := e.client.Cells.Named(name).Undelete(ctx); !client.HasCode(err, api.CodeNotFound) {
			errs = append(errs, failure(err))
		}
	}
	return errors.Join(errs...)
}

// Verify recomputes the hashes of states.
func (e *Engine) Verify(ctx context.Context, cell, checkpoint string, all bool) (*api.VerifyResult, error) {
	return asEngineError(e.client.Cells.Named(cell).Verify(ctx, client.Verify{Checkpoint: checkpoint, All: all}))
}

// CellAt returns the cell that was made from a directory, or from the nearest one
// above it, and the path of dir below that directory.
func (e *Engine) CellAt(ctx context.Context, dir string) (name, below string, err error) {
	if !e.client.Local() {
		sources, err := e.mirrorsAt(ctx)
		if err != nil {
			return "", "", err
		}
		return home.CellOf(dir, sources)
	}
	cells, err := e.ListMatching(ctx, api.CellFilter{})
	if err != nil {
		return "", "", err
	}
	sources := map[string]string{}
	for _, c := range cells {
		if strings.HasPrefix(c.Source, "/") && c.ForkedFrom == "" {
			sources[c.Name] = c.Source
		}
	}
	return home.CellOf(dir, sources)
}

// KnownNames returns names for completion. Those that cannot be had are left out.
func (e *Engine) KnownNames(ctx context.Context, cell string) (k api.KnownNames) {
	cells, _ := e.ListMatching(ctx, api.CellFilter{})
	for _, c := range cells {
		k.Cells = append(k.Cells, c.Name)
	}
	receipts, _ := e.ReceiptList(ctx, "")
	for _, r := range slices.Backward(receipts) {
		k.Receipts = append(k.Receipts, r.ReceiptID+"\t"+r.Outcome+", "+r.Decision)
		if r.Cell == cell {
			k.Runs = append(k.Runs, r.RunID+"\t"+r.Outcome+", "+r.Decision)
		}
	}
	if cell == "" {
		return k
	}
	k.Checkpoints = []string{"HEAD\tthe present state", "base\tthe first state", "applied\tthe state that the source has"}
	states, _ := pages[api.CheckpointInfo](ctx, e, op.ListCheckpoints.At(cell))
	for _, s := range slices.Backward(states) {
		if s.Freed {
			continue
		}
		for _, name := range s.Names {
			k.Checkpoints = append(k.Checkpoints, name+"\t"+s.CheckpointID)
		}
		k.Checkpoints = append(k.Checkpoints, s.CheckpointID+"\t"+s.Kind)
	}
	return k
}

// Usage reports what cells use.
func (e *Engine) Usage(ctx context.Context, prefix string) (*api.UsageResult, error) {
	res, err := get[api.UsageResult](ctx, e, op.Usage.Path)
	if err != nil || prefix == "" {
		return res, err
	}
	res.Cells = slices.DeleteFunc(res.Cells, func(c api.CellUsage) bool { return !strings.HasPrefix(c.Name, prefix) })
	res.Total = api.Consumption{}
	for _, c := range res.Cells {
		res.Total = res.Total.Plus(c.Consumption)
	}
	return res, nil
}

// Disk reports the disk space of a cell, or of all cells and the home.
func (e *Engine) Disk(ctx context.Context, cell string) (*api.DiskResult, error) {
	if cell == "" {
		return carryOut(ctx, e, op.GetHomeDisk, op.None{})
	}
	return carryOut(ctx, e, op.GetDisk, api.OfCell{Cell: cell})
}

// Processes lists the processes of a live cell.
func (e *Engine) Processes(ctx context.Context, cell string) ([]api.ProcessInfo, error) {
	return pages[api.ProcessInfo](ctx, e, op.ListProcesses.At(cell))
}

// Log returns the history of a cell.
func (e *Engine) Log(ctx context.Context, cell string) ([]api.LogEntry, error) {
	return pages[api.LogEntry](ctx, e, op.GetLog.At(cell))
}

// Graph returns the lineage of all states.
func (e *Engine) Graph(ctx context.Context) ([]api.GraphNode, error) { return all(e.client.Graph(ctx)) }

// GC frees states that nothing needs, of the daemon and of the mirrors of its cells. It
// also finishes what killed inits left here.
func (e *Engine) GC(ctx context.Context, r api.GCRequest) (*api.GCResult, error) {
	mirrored, err := e.collectMirrors(ctx, r)
	if err != nil {
		return nil, err
	}
	// 0 is sent as such: it is not the default.
	body := map[string]any{
		"dry_run": r.DryRun, "keep_last": r.KeepLast, "older_than": strconv.FormatInt(int64(r.OlderThan), 10) + "ns",
	}
	if r.Removed {
		body["removed"] = true
	}
	if r.OutputOlderThan != 0 {
		body["output_older_than"] = strconv.FormatInt(max(0, int64(r.OutputOlderThan)), 10) + "ns"
	}
	res := new(api.GCResult)
	if err := e.ask(ctx, http.MethodPost, op.CollectGarbage.Path, body, res); err != nil {
		return nil, err
	}
	res.MirrorBytes = mirrored
	return res, nil
}

// collectMirrors frees what nothing needs of the mirrors of the daemon's cells, and
// returns how many bytes that were.
func (e *Engine) collectMirrors(ctx context.Context, r api.GCRequest) (freed int64, err error) {
	if e.client.Local() {
		return 0, nil
	}
	var h Home
	var release func() error
	if r.DryRun {
		h, release, err = e.homes.Mirrors(false)
	} else {
		h, _, release, err = e.finishedMirrors(ctx, false)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r.KeepSources = true
	res, err := h.GC(ctx, r)
	if err != nil {
		return 0, err
	}
	return res.Bytes, nil
}

// query returns a path with those parameters that are set.
func query(path string, params map[string]string) string {
	q := url.Values{}
	for key, value := range params {
		if value != "" {
			q.Set(key, value)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
