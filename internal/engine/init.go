package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// ignoreFile is the file in the source that adds to the secret rules.
const ignoreFile = ".forkcellignore"

// archiveMount is the path of the workspace in a cell made from an archive.
const archiveMount = "/workspace"

// Init makes a cell from a directory or an exported archive.
func (e *Engine) Init(ctx context.Context, req api.InitRequest) (*api.InitResult, error) {
	begin := time.Now()
	c, err := e.newCell(req)
	if err != nil {
		return nil, err
	}
	settings, err := newSettings(nil, req.Settings)
	if err != nil {
		return nil, err
	}
	if err := e.chooseBackend(ctx, &c, req.Backend); err != nil {
		return nil, err
	}
	if c.Live != "" {
		if err := e.Caller.MayDecide("a cell with the backend delta"); err != nil {
			return nil, err
		}
	}
	if c.Cache != "" {
		if err := checkCache(c, c.ReadOnly); err != nil {
			return nil, err
		}
	}
	if err := e.settleInits(ctx); err != nil {
		return nil, err
	}
	lock, err := e.Store.LockCell(ctx, c.ID, c.Name, "init", 0)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	home, err := e.Store.LockHome(false)
	if err != nil {
		return nil, err
	}
	defer home.Unlock()
	op := store.NewID("op")
	err = e.Store.Update(func(tx *store.Tx) error {
		return tx.PutIntent(op, c.ID, store.IntentInit, map[string]string{"name": c.Name})
	})
	if err != nil {
		return nil, err
	}
	res, err := e.importCell(ctx, &c, settings, op, req.Sole)
	if err != nil {
		return nil, errors.Join(err, e.dropInit(op))
	}
	if req.Upload != "" {
		e.dropUpload(req.Upload)
	}
	res.Timings.TotalUS = since(begin)
	return res, nil
}

// newCell checks the request and describes the cell.
func (e *Engine) newCell(req api.InitRequest) (store.Cell, error) {
	c := store.Cell{ID: store.NewID("cell"), Name: req.Name, LastName: req.Name, Runtime: cmp.Or(req.Runtime, api.RuntimeNative), Prefix: e.Caller.Prefix, CreatedAt: e.Now().UTC()}
	if _, err := e.runtime(c.Runtime); err != nil {
		return c, err
	}
	if req.Name != "" {
		if err := home.CheckName("cell", req.Name); err != nil {
			return c, err
		}
		if err := e.NameFree(req.Name); err != nil {
			return c, err
		}
	}
	if err := e.source(&c, req); err != nil {
		return c, err
	}
	if req.Name == "" {
		c.Name = e.NameAfter(c.Source)
		c.LastName = c.Name
	}
	if err := mountPoint(&c, req.MountAt); err != nil {
		return c, err
	}
	if err := checkCacheSetting(req.Cache); err != nil {
		return c, err
	}
	if req.Cache == api.CacheStandard {
		c.Cache = req.Cache
	}
	for _, p := range req.ReadOnly {
		shown, err := e.shownPath("--ro", p)
		if err != nil {
			return c, err
		}
		c.ReadOnly = append(c.ReadOnly, shown)
	}
	if req.Policy != nil {
		p, err := e.Caller.ParsePolicy(*req.Policy)
		if err != nil {
			return c, err
		}
		if p, err = e.Caller.UnderCeiling(p); err != nil {
			return c, err
		}
		if err := e.mayLoosen(p); err != nil {
			return c, err
		}
		if c.Policy, c.PolicyBytes, err = e.keepPolicy(p); err != nil {
			return c, api.Failf(api.CodePolicy, err, "keep the policy")
		}
		c.Pins = e.keptPins(*req.Policy)
	}
	c.Rules = store.Rules{NoDefaults: req.NoDefaultExcludes, Extra: req.Exclude}
	if c.SourceKind == "dir" {
		data, err := readIgnoreFile(c.Source)
		if err != nil {
			return c, err
		}
		c.Rules.IgnoreFile, c.Rules.Above = data, c.Source
	}
	at, err := e.Layout(c)
	if err != nil {
		return c, api.Usagef("patterns are gitignore-style", "%v", err)
	}
	if err := at.Rules.CheckNew(); err != nil {
		return c, api.Usagef("use fewer patterns with `?`, `[` or several `**`", "%v", err)
	}
	return c, nil
}

// source finds the kind of the source of a request.
func (e *Engine) source(c *store.Cell, req api.InitRequest) error {
	switch {
	case req.Empty:
		c.SourceKind = "archive" // of nothing
		return nil
	case req.Upload != "":
		c.SourceKind, c.Source = "archive", api.UploadSource+req.Upload
		return e.checkUpload(req.Upload)
	}
	return e.sourcePath(c, req.From)
}

// sourcePath finds the kind of the source that --from names.
func (e *Engine) sourcePath(c *store.Cell, from string) error {
	if from == "" {
		return api.Usagef("`--from DIR` or `--from FILE.tar`", "--from is missing")
	}
	abs, err := e.Caller.AbsPath(from)
	if err != nil {
		return err
	}
	if err := e.Caller.MayNamePath(abs); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return api.Usagef("give a directory, FILE.tar or FILE.tar.zst", "--from %s: %v", quote.Path(from), quote.Cause(err))
	}
	info, err := os.Stat(real)
	if err != nil {
		return api.Usagef("give a directory, FILE.tar or FILE.tar.zst", "--from %s: %v", quote.Path(from), quote.Cause(err))
	}
	if err := e.Caller.MayUsePath(real); err != nil {
		return err
	}
	c.Source = real
	switch {
	case real == "/":
		return api.Refusef(api.CodeOverlap, "name the directory of the project", "--from / would import the whole host")
	case info.IsDir():
		c.SourceKind = "dir"
		dir, err := e.OpenHost(real)
		if _, refused := errors.AsType[*api.Error](err); err != nil && !refused {
			err = api.Usagef("give a directory, FILE.tar or FILE.tar.zst", "--from %s: %v", quote.Path(from), quote.Cause(err))
		}
		if err != nil {
			return err
		}
		if err := dir.Close(); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		c.SourceKind = "archive"
		if !strings.HasSuffix(real, ".tar") && !strings.HasSuffix(real, ".tar.zst") {
			return api.Usagef("give a directory, FILE.tar or FILE.tar.zst", "--from %s is not an archive by its name", quote.Path(from))
		}
	default:
		return api.Usagef("give a directory, FILE.tar or FILE.tar.zst", "--from %s is neither a directory nor a file", quote.Path(from))
	}
	return e.RefuseOverlap("--from", real)
}

// mountPoint chooses the path of the workspace in the cell. It is the path of the
// source by default, so that absolute paths in build files and caches stay valid.
func mountPoint(c *store.Cell, asked string) error {
	c.MountAt = c.Source
	if c.SourceKind == "archive" {
		c.MountAt = archiveMount
	}
	if asked != "" {
		if !filepath.IsAbs(asked) || strings.IndexByte(asked, 0) >= 0 {
			return api.Usagef("give an absolute path", "--mount-at %s is not absolute", quote.Path(asked))
		}
		c.MountAt = filepath.Clean(asked)
	}
	for _, taken := range []string{"/home/sandbox", "/proc", "/dev", "/sys", "/run"} {
		if fsx.Within(c.MountAt, taken) || fsx.Within(taken, c.MountAt) {
			return api.Refusef(api.CodeMount, "choose another place with --mount-at",
				"the workspace cannot be at %s: it would cover or lie in %s", quote.Path(c.MountAt), taken)
		}
	}
	for _, taken := range []string{"/tmp", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64"} {
		if fsx.Within(taken, c.MountAt) {
			return api.Refusef(api.CodeMount, "choose another place with --mount-at",
				"the workspace cannot be at %s: it would cover %s", quote.Path(c.MountAt), taken)
		}
	}
	return nil
}

func readIgnoreFile(source string) ([]byte, error) {
	root, err := fsx.OpenRoot(source)
	if err != nil {
		return nil, api.Usagef("", "--from %s: %v", quote.Path(source), err)
	}
	defer root.Close()
	f, err := root.OpenFile(ignoreFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, api.Usagef("make it a plain file", "%s: %v", ignoreFile, quote.Cause(err))
	}
	defer f.Close()
	const limit = 1 << 20
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && len(data) > limit {
		return nil, api.Usagef("", "%s is larger than %d bytes", ignoreFile, limit)
	}
	return data, err
}

// chooseBackend takes the requested backend, or probes for one and records the
// reason.
func (e *Engine) chooseBackend(ctx context.Context, c *store.Cell, asked string) error {
	switch workspace.Backend(asked) {
	case workspace.BackendClone:
		c.Backend, c.BackendReason = asked, "asked for"
		return nil
	case workspace.BackendDelta:
		if c.SourceKind != "dir" {
			return api.Usagef("give a directory", "--backend delta works in the source itself, and %s is an archive", quote.Path(c.Source))
		}
		c.Backend, c.BackendReason, c.Live = asked, "asked for", c.Source
		return nil
	case workspace.BackendOverlay, "":
	default:
		return api.Usagef("one of overlay, clone, delta", "unknown backend %s", quote.Arg(asked))
	}
	err := e.driver.ProbeOverlay(ctx, e.Store.Path())
	switch {
	case err == nil && asked == "":
		c.Backend, c.BackendReason = string(workspace.BackendOverlay), "probed: overlay works in this home"
	case err == nil:
		c.Backend, c.BackendReason = asked, "asked for, and probed"
	case asked == "":
		c.Backend, c.BackendReason = string(workspace.BackendClone), "overlay does not work here: "+err.Error()
	default:
		return &api.Error{
			Kind: api.Refused, Code: api.CodeBackend, Message: "overlay does not work here: " + err.Error(),
			Hint: "leave --backend out, or give --backend clone", Err: err,
		}
	}
	return nil
}

// refuseSecond refuses a second cell of a directory: two processes may have found
// that it has none.
func refuseSecond(tx *store.Tx, source string) error {
	cells, err := tx.Cells(false)
	for _, c := range cells {
		if home.IsOfDirectory(c) && c.Source == source {
			return api.Refusef(api.CodeNameTaken, "`forkcell status "+c.Name+"` shows it", "%s got the cell %s meanwhile", quote.Path(source), c.Name)
		}
	}
	return err
}

// importCell imports the source and records the cell.
func (e *Engine) importCell(ctx context.Context, c *store.Cell, settings store.Settings, op string, sole bool) (*api.InitResult, error) {
	begin := time.Now()
	ctx, end, err := e.withBudget(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	at, err := e.Layout(*c)
	if err != nil {
		return nil, err
	}
	var dropped []string
	from := e.importSource(ctx, *c, func(path, what string) {
		dropped = append(dropped, quote.Path(path)+": "+what+" was not kept")
	})
	if from.Dir != "" && e.Caller.Within != nil {
		dir, err := e.OpenHost(from.Dir)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		from.Dir = home.DescriptorPath(dir)
	}
	sealed, report, err := e.Workspace.Import(ctx, at, op, from)
	if err != nil {
		return nil, importError(*c, withinBudget(ctx, err))
	}
	importUS := since(begin)
	report.Notes = append(report.Notes, dropped...)
	c.Kept = slices.Sorted(slices.Values(slices.Concat(report.Kept, report.Public)))
	for _, l := range report.LeftOut {
		c.LeftOut = append(c.LeftOut, store.LeftOut{Path: []byte(l.Path), Rule: l.Rule})
	}
	base := e.NewCheckpoint(*c, "", "init", "", sealed)
	c.Head, c.Applied = base.ID, base.ID
	err = e.Store.Update(func(tx *store.Tx) error {
		if sole {
			if err := refuseSecond(tx, c.Source); err != nil {
				return err
			}
		}
		return e.recordInit(tx, *c, settings, base, op)
	})
	if errors.Is(err, store.ErrTaken) {
		return nil, api.Refusef(api.CodeNameTaken, "choose another name", "cell %s exists already", c.Name)
	}
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return nil, refused
	}
	if err != nil {
		return nil, fmt.Errorf("record the cell: %w", err)
	}
	return e.initResult(*c, base, report, importUS), nil
}

func (e *Engine) recordInit(tx *store.Tx, c store.Cell, settings store.Settings, base store.Checkpoint, op string) error {
	if err := tx.PutCell(c); err != nil {
		return err
	}
	if err := tx.PutSettings(c.ID, settings); err != nil {
		return err
	}
	if err := tx.PutCheckpoint(base); err != nil {
		return err
	}
	if err := tx.DropIntent(op); err != nil {
		return err
	}
	return e.Evidence.Change(tx, c, base, receipt.OpInit, nil)
}

func (e *Engine) importSource(ctx context.Context, c store.Cell, dropped func(path, what string)) workspace.Source {
	if c.SourceKind == "dir" {
		return workspace.Source{Dir: c.Source}
	}
	return workspace.Source{Fill: func(dst *fsx.Dir) (workspace.OwnerOf, error) {
		if c.Source == "" {
			return nil, nil
		}
		f, err := e.openArchive(c.Source)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return extract(ctx, f, dst, dropped)
	}}
}

func (e *Engine) initResult(c store.Cell, base store.Checkpoint, report workspace.Report, importUS int64) *api.InitResult {
	area := base.Areas[workspace.AreaWorkspace]
	res := &api.InitResult{
		Cell: c.Name, CellID: c.ID, CheckpointID: base.ID, Root: base.Root(), MetaRoot: base.MetaRoot(), Source: c.Source,
		MountAt: c.MountAt, Backend: c.Backend, BackendReason: c.BackendReason, Runtime: c.Runtime,
		Files: area.Files, Dirs: area.Dirs, Bytes: area.Bytes, LeftOut: home.LeftOut(c), KeptByGit: append([]string{}, report.Kept...),
		UnmappedIDs: []string{}, Notes: append([]string{}, report.Notes...), Timings: api.InitTimings{ImportUS: importUS},
	}
	for _, o := range report.Owners {
		res.UnmappedIDs = append(res.UnmappedIDs, fmt.Sprintf("%d:%d (%d entries, e.g. %s)", o.UID, o.GID, o.Count, quote.Path(o.Example)))
	}
	return res
}
