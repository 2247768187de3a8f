package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/mask"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// controlMasks hides and replaces the control files of a run's workspace.
type controlMasks struct {
	files    *api.ControlFiles
	standIns []workspace.StandIn
	// mounts is used where the backend has no stand-ins.
	mounts mount.Set
}

// noStandIns is the degradation of a cell whose backend cannot hide names.
const noStandIns = "control files that the workspace does not have are not masked, and settings of git are shown whole, and git in the cell cannot add or commit everything at once: the cell's backend cannot hide names"

// checkControl refuses a request that no cell can meet.
func checkControl(q api.StartRequest) error {
	if q.Control != nil && q.Warm != nil {
		return api.Usagef("leave one of the two out", "control files cannot be masked in a warm template")
	}
	return checkPatterns(q.Control)
}

// checkUnrestricted refuses a network without restrictions to others than the operator,
// and outside of the sessions that it was acknowledged for.
func (e *Engine) checkUnrestricted(q api.StartRequest) error {
	if q.Network.Unrestricted && (q.Session == nil || e.Caller.Ceiling != nil) {
		return api.Refusef(api.CodeForbidden, "", "only the operator's own sessions reach every host")
	}
	return nil
}

// checkPackages refuses a request that no cell can meet.
func checkPackages(q api.StartRequest) error {
	switch {
	case !q.Packages:
		return nil
	case q.Root != rootHostOverlay:
		return api.Usagef("give it the root host-overlay", "package managers need a system that they can write to")
	case q.AsRoot || q.Warm != nil:
		return api.Usagef("leave one of the two out", "package managers are executed as root for programs that are not, in cells that are no template")
	}
	return nil
}

func checkPatterns(q *api.ControlRequest) error {
	if q == nil {
		return nil
	}
	if _, err := mask.NewRules(maskOptions(q)); err != nil {
		return api.Usagef("patterns are gitignore-style", "bad pattern: %v", err)
	}
	return nil
}

func maskOptions(q *api.ControlRequest) mask.Options {
	return mask.Options{ShowGit: q.ShowGit, ShowMCP: q.ShowMCP, Also: q.Also, State: q.State}
}

// maskControl gives the cell the committed instruction files, and finds the control
// files in the state that the run begins with.
func (r *run) maskControl(ctx context.Context, req *api.ControlRequest) error {
	if err := checkPatterns(req); err != nil {
		return err
	}
	if req == nil || !r.policy.Filesystem.IncludeWorkdir {
		return nil
	}
	instructions, err := r.commitInstructions(ctx)
	if errors.Is(err, gitread.ErrUnsupported) {
		r.degraded = append(r.degraded, "instruction files are those of the work tree: "+quote.Line(err.Error()))
	} else if err != nil {
		return api.Failf(api.CodeControl, err, "show the committed instruction files")
	}
	files, err := r.e.StateTree(r.Record, r.Head)
	if err != nil {
		return home.StateError(r.Head, err)
	}
	plan, err := mask.Find(files, maskOptions(req))
	if errors.Is(err, mask.ErrTooMany) {
		return api.Refusef(api.CodeControl, "look for control files that were made by the thousand", "%v in the workspace", err)
	}
	if err != nil {
		return home.StateError(r.Head, err)
	}
	r.control = newControlMasks(r.Record.MountAt, workspace.Backend(r.Record.Backend), plan)
	if len(r.control.standIns) > 0 {
		if err := r.control.skipHidden(ctx, files, plan.Hidden); err != nil {
			return home.StateError(r.Head, err)
		}
	}
	r.control.files.Also, r.control.files.State = quote.AllUTF8(req.Also), quote.AllUTF8(req.State)
	r.control.files.Instructions = instructions
	if r.control.files.Empty {
		r.degraded = append(r.degraded, noStandIns)
	}
	return nil
}

func newControlMasks(mountAt string, b workspace.Backend, p *mask.Plan) *controlMasks {
	m := &controlMasks{files: &api.ControlFiles{
		Hidden: append([]string{}, quote.AllUTF8(p.Hidden)...), ReadOnly: append([]string{}, quote.AllUTF8(p.ReadOnly)...),
		Filtered: []api.FilteredFile{}, Missing: append([]string{}, quote.AllUTF8(p.Missing)...),
	}}
	for _, f := range p.Filtered {
		m.files.Filtered = append(m.files.Filtered, api.FilteredFile{
			Path: quote.UTF8(f.Path), Removed: append([]string{}, quote.AllUTF8(f.Removed)...), Unreadable: f.Unreadable,
		})
	}
	for _, p := range p.ReadOnly {
		m.mounts.Fixed = append(m.mounts.Fixed, path.Join(mountAt, p))
	}
	if b.Overlays() {
		m.standIn(p)
	} else {
		m.cover(mountAt, p)
	}
	return m
}

// standIn hides names by stand-ins.
func (m *controlMasks) standIn(p *mask.Plan) {
	for _, hidden := range slices.Concat(p.Hidden, p.Missing) {
		m.standIns = append(m.standIns, workspace.StandIn{Path: hidden, Absent: true})
	}
	for _, f := range p.Filtered {
		m.standIns = append(m.standIns, workspace.StandIn{Path: f.Path, Contents: f.Contents})
	}
}

// maxIndex bounds an index of git in which hidden paths are skipped.
const maxIndex = 64 << 20

// skipHidden shows indexes of git in which the hidden paths are skipped: git then takes
// none of them for removed. What cannot be read is shown as it is.
func (m *controlMasks) skipHidden(ctx context.Context, files *home.StateTree, hidden []string) error {
	if len(hidden) == 0 {
		return nil
	}
	indexes, err := secretfiles.Indexes(ctx, files)
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(indexes)) {
		var below []string
		for _, h := range hidden {
			if rel, in := strings.CutPrefix(h, strings.TrimPrefix(indexes[p]+"/", "./")); in {
				below = append(below, rel)
			}
		}
		text, err := gitread.Read(files, p, maxIndex)
		if err != nil || len(below) == 0 {
			continue
		}
		if s := workspace.IndexStandIn(p, text, below); s != nil {
			m.standIns = append(m.standIns, *s)
		}
	}
	return nil
}

// cover hides the contents of files and directories by mounts, and keeps the names
// of the directories above them.
func (m *controlMasks) cover(mountAt string, p *mask.Plan) {
	m.files.Empty = true
	pinned := map[string]bool{".": true}
	pin := func(below string) {
		for dir := path.Dir(below); !pinned[dir]; dir = path.Dir(dir) {
			pinned[dir] = true
			m.mounts.Pins = append(m.mounts.Pins, path.Join(mountAt, dir))
		}
	}
	for _, hidden := range p.Hidden {
		pin(hidden)
		m.mounts.Masks = append(m.mounts.Masks, mount.Mask{Target: path.Join(mountAt, hidden), Dir: slices.Contains(p.HiddenDirs, hidden)})
	}
	for _, f := range p.Filtered {
		pin(f.Path)
		m.mounts.Fixed = append(m.mounts.Fixed, path.Join(mountAt, f.Path))
	}
	for _, f := range p.ReadOnly {
		pin(f)
	}
	slices.Sort(m.mounts.Pins)
}

// add adds the masks to the mounts of a run.
func (m *controlMasks) add(set *mount.Set) {
	if m == nil {
		return
	}
	set.Pins = append(set.Pins, m.mounts.Pins...)
	set.Fixed = append(set.Fixed, m.mounts.Fixed...)
	set.Masks = append(set.Masks, m.mounts.Masks...)
}

// record returns the masks for the record of the run and its receipt.
func (m *controlMasks) record() (json.RawMessage, error) {
	if m == nil {
		return nil, nil
	}
	return json.Marshal(m.files)
}
