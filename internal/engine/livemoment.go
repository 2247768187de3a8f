package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// moment is the state that the branches of one order begin with.
type moment struct {
	// at is the state of the files.
	at *api.CheckpointResult
	// copy makes the cell of a branch, with the memory.
	copy func(ctx context.Context, l *liveRun, spec driver.Spec, number int) (driver.Cell, error)
	// end removes what only the copies needed.
	end func() error
	// perProcessor is how many branches are made at a time for each processor.
	perProcessor int
}

// How many branches are made at a time for each processor. More copies than a processor
// needs: those whose cells are built are made for one stop of the template.
const copiesPerProcessor, restoresPerProcessor = 8, 2

// branchable refuses a cell that cannot be branched: one whose processes cannot be
// copied at all, or not while it is paused.
func (l *liveRun) branchable() error {
	switch l.cell.(type) {
	case driver.Template, driver.Saver:
		return l.host.Usable()
	}
	return notTemplate(l.r.Record.Name)
}

// moment captures the files of a live cell together with its memory.
func (l *liveRun) moment(ctx context.Context) (*moment, error) {
	switch c := l.cell.(type) {
	case driver.Template:
		at, err := l.checkpoint(ctx, "")
		return &moment{
			at: at, end: func() error { return nil }, perProcessor: copiesPerProcessor,
			copy: func(ctx context.Context, l *liveRun, spec driver.Spec, number int) (driver.Cell, error) {
				return l.copyOf(ctx, c, driver.Branch{Spec: spec, Number: number})
			},
		}, err
	case driver.Saver:
		source := l.r.Record.Name
		image, at, err := l.save(ctx, c, "", nil)
		if err != nil {
			return nil, err
		}
		return &moment{
			at: at, end: image.Remove, perProcessor: restoresPerProcessor,
			copy: func(ctx context.Context, l *liveRun, spec driver.Spec, _ int) (driver.Cell, error) {
				c, err := l.restore(ctx, image, spec)
				return c, explainUnusable("the memory of "+source, "`forkcell fork "+source+" --name NAME` makes a cell with its files alone", err)
			},
		}, nil
	}
	return nil, notTemplate(l.r.Record.Name)
}

// checkpointMemory captures the files and the memory of the cell at one moment, and
// keeps both.
func (l *liveRun) checkpointMemory(ctx context.Context, name string) (*api.CheckpointResult, error) {
	if name != "" {
		if err := home.CheckName("checkpoint", name); err != nil {
			return nil, err
		}
	}
	c, ok := l.cell.(driver.Saver)
	if !ok {
		return nil, api.Refusef(api.CodeRuntime, "leave --memory out: the files are kept; the runtime gvisor keeps memory too",
			"cell %s is live with the runtime native, which keeps no memory on disk", l.r.Record.Name)
	}
	if err := l.host.Usable(); err != nil {
		return nil, err
	}
	_, at, err := l.save(ctx, c, name, l.keepMemory)
	return at, err
}

// keepMemory keeps an image for a checkpoint, with what must be known to use it.
func (l *liveRun) keepMemory(ctx context.Context, image moments.Image, checkpoint string) (string, error) {
	return l.keepImage(ctx, image, checkpoint, l.options(), l.r.gateway != nil)
}

// keepImage makes an image durable under an id, with the options of the run and, if
// asked, what its network needs. It returns the digest.
func (l *liveRun) keepImage(ctx context.Context, image moments.Image, id string, o api.RunOptions, network bool) (string, error) {
	o.Network.Credentials, o.Network.CredentialsFile, o.Network.SSH, o.Network.Unrestricted = nil, "", nil, false
	if o.Policy == nil {
		o.Policy = &api.PolicyFile{Name: api.Text("the policy of " + l.r.Record.Name), Text: l.r.policy.Canonical()}
	}
	run, err := json.Marshal(savedRun{Cell: l.r.Record.Name, RunID: l.r.rec.ID, At: l.r.e.Now().UTC(), Options: o, Ceiling: l.r.policy.Canonical()})
	if err == nil {
		err = image.Write(moments.Run, run)
	}
	if err == nil && network {
		err = l.writeNetwork(image)
	}
	if err != nil {
		return "", saveError(l.r.Record.Name, err)
	}
	kept, digest, err := image.Keep(ctx, id)
	if err != nil {
		return "", errors.Join(saveError(l.r.Record.Name, err), kept.Remove())
	}
	failpoint.Hit("live.memory")
	return digest, nil
}

func (l *liveRun) writeNetwork(image moments.Image) error {
	data, err := l.r.gateway.Save()
	if err != nil {
		return err
	}
	return image.Write(moments.Network, data)
}

// save captures the files and the memory of the cell at one moment. The files become a
// state with the given name, if it has one, and the memory an image, which keep keeps
// for that state. Without keep it has the id of the run, with which it is removed if
// this process dies.
func (l *liveRun) save(ctx context.Context, c driver.Saver, name string, keep func(context.Context, moments.Image, string) (string, error)) (image moments.Image, at *api.CheckpointResult, err error) {
	lock, err := l.r.e.Store.LockHome(false)
	if err != nil {
		return image, nil, err
	}
	defer lock.Unlock()
	if image, err = l.r.e.Images().New(l.r.rec.ID); err != nil {
		return image, nil, home.Explain(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, image.Remove())
		}
	}()
	var captured *workspace.Capture
	saved, err := c.Save(ctx, image.Processes(), func() error {
		captured, err = l.captureWith(ctx, image)
		return err
	})
	failpoint.Hit("live.saved")
	if err != nil {
		if captured != nil {
			err = errors.Join(err, captured.Discard())
		}
		return image, nil, saveError(l.r.Record.Name, err)
	}
	var kept func(string) (string, error)
	if keep != nil {
		kept = func(checkpoint string) (string, error) {
			digest, err := keep(ctx, image, checkpoint)
			image = l.r.e.Images().Image(checkpoint)
			return digest, err
		}
	}
	if at, err = l.keepCapture(ctx, captured, name, kept); err != nil {
		return image, nil, err
	}
	at.PauseUS = saved.Pause.Microseconds()
	return image, at, nil
}

// captureWith copies the files of the cell while it stands still: those that become a
// state, and its /tmp, which no state has.
func (l *liveRun) captureWith(ctx context.Context, image moments.Image) (*workspace.Capture, error) {
	captured, err := l.r.work.Capture(ctx, store.NewID("op"))
	if err != nil {
		return nil, captureError(err)
	}
	dir, err := image.Open()
	if err == nil {
		err = errors.Join(l.r.work.CopyTmp(ctx, dir), dir.Close())
	}
	if err != nil {
		return nil, errors.Join(captureError(err), captured.Discard())
	}
	return captured, nil
}

// saveError returns the error of memory that was not saved.
func saveError(cell string, err error) error {
	if _, ok := errors.AsType[*api.Error](err); ok {
		return err
	}
	return home.Explain(api.Failf(api.CodeCapture, err, "save the memory of cell %s", cell))
}

// restore makes the cell of a branch from an image. Its workspace has the state of the
// same moment.
func (l *liveRun) restore(ctx context.Context, image moments.Image, spec driver.Spec) (driver.Cell, error) {
	restorer, ok := l.r.driver.(driver.Restorer)
	if !ok {
		return nil, notTemplate(l.r.Record.Name)
	}
	dir, err := image.Open()
	if err == nil {
		err = errors.Join(l.r.work.FillTmp(ctx, dir), dir.Close())
	}
	if err != nil {
		return nil, home.Explain(api.Failf(api.CodeBranch, err, "copy the files of /tmp"))
	}
	return restorer.Restore(ctx, spec, image.Processes())
}

// copyOf makes the cell of a branch.
func (l *liveRun) copyOf(ctx context.Context, t driver.Template, b driver.Branch) (driver.Cell, error) {
	var finish func()
	b.Stdio, finish = l.host.Output()
	child, err := t.Branch(ctx, b)
	if err != nil {
		finish()
		return nil, copyError(l.req.origin.Source, err)
	}
	l.host.Follow(child, l.warm, finish)
	return child, nil
}

// copyError explains why a template could not be copied.
func copyError(source string, err error) error {
	if errors.Is(err, driver.ErrNotWarm) {
		return api.Refusef(api.CodeNotWarm, "`forkcell stop "+source+"`, and make it a template again", "the warm process of cell %s has ended", source)
	}
	start, ok := errors.AsType[*driver.StartError](err)
	switch {
	case ok && errors.Is(err, driver.ErrNotConfined):
		return api.Refusef(api.CodeNotWarm, "what the warm process opens or maps to share must be closed when it gets warm", "%v", start.Err)
	case ok && errors.Is(err, driver.ErrNotReady):
		return api.Refusef(api.CodeNotWarm, "mend what FORKCELL_AFTER_FORK names, then `forkcell stop "+source+"`, and make it a template again", "%v", start.Err)
	}
	return err
}

// options returns those of the request that started the cell.
func (l *liveRun) options() api.RunOptions {
	o := l.req.RunOptions
	if len(l.r.rulings) > 0 {
		o.Policy = nil // the cell got another one since it was started
	}
	return o
}

// notTemplate refuses a branch of a cell that is no template.
func notTemplate(cell string) error {
	return api.Refusef(api.CodeNotWarm, "stop it, then `forkcell start "+cell+" --runtime gvisor` makes a live cell that can be branched whatever runs in it, and `forkcell warm python "+cell+"` a template",
		"cell %s is no warm template: only a process that takes part can be copied", cell)
}
