package engine

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// scratch is a branch for one question to a template. It is no cell of the home: what
// it does is in the events of the template's run, and what it writes is dropped.
type scratch struct {
	home  *store.Lock // its state has no record that protects it
	work  *workspace.Work
	child driver.Child
}

// evalInBranch runs code in a branch of the template that ends with it.
func (l *liveRun) evalInBranch(ctx context.Context, t driver.Template, code string) (res *api.EvalResult, err error) {
	l.branches.Add(1)
	defer l.branches.Done()
	s := &scratch{}
	err = l.host.Exclusively(func() error { return l.startScratch(ctx, t, s) })
	if err == nil {
		res, err = ask(ctx, l.r.Record.Name, s.child, code)
	}
	left := s.end()
	if err == nil {
		err = left
	}
	// What failed first explains the rest.
	return res, home.Explain(err)
}

// startScratch makes the branch. The caller ends it, also after an error.
func (l *liveRun) startScratch(ctx context.Context, t driver.Template, s *scratch) (err error) {
	r := l.r
	if r.Record.Live != "" {
		return api.Refusef(api.CodeTemplate, "`forkcell branch "+r.Record.Name+"` makes a cell to use", "cell %s has a live directory, of which no short copy is made", r.Record.Name)
	}
	if s.home, err = r.e.Store.LockHome(false); err != nil {
		return err
	}
	captured, _, err := l.capture(ctx)
	if err != nil {
		return err
	}
	sealed, err := captured.Seal(ctx)
	if err != nil {
		return captureError(err)
	}
	layer := sealed.Layer
	if sealed.Unchanged {
		layer = r.before.Layer
	}
	at := r.At
	at.Areas = r.areas
	if s.work, err = r.e.Workspace.Begin(ctx, at, layer, store.NewID("op")); err != nil {
		return err
	}
	spec, err := l.scratchSpec(ctx, s.work)
	if err != nil {
		return err
	}
	child, err := t.Branch(ctx, driver.Branch{Spec: spec})
	if err = copyError(r.Record.Name, err); api.CodeOf(err) != "" {
		return err
	}
	if err != nil {
		return r.startFailure(err)
	}
	s.child = child
	return nil
}

// scratchSpec is the specification of the template with other files and a network of
// its own.
func (l *liveRun) scratchSpec(ctx context.Context, w *workspace.Work) (driver.Spec, error) {
	r := l.r
	spec := r.spec
	spec.ID, spec.Template, spec.Started = store.NewID("op"), false, nil
	spec.Mounts = r.mounts(w)
	spec.Mounts.Masks = append(spec.Mounts.Masks, r.masks...)
	if r.gateway == nil {
		return spec, nil
	}
	req := networkRequest{NetworkRequest: api.NetworkRequest{Resolve: l.req.Network.Resolve, CA: l.req.Network.CA}, reloadable: true, source: r.gateway}
	g, err := r.newGate(ctx, r.Record.Name, r.policy.Digest(), req)
	if err != nil {
		return spec, err
	}
	spec.Network = r.e.servedNetwork(g)
	spec.Env = driver.WithVariables(r.plainEnv, g.Environment())
	return spec, nil
}

// end removes everything of the branch.
func (s *scratch) end() (err error) {
	if s.child != nil {
		err = s.child.Close()
	}
	if s.work != nil {
		err = errors.Join(err, s.work.Discard())
	}
	s.home.Unlock()
	return err
}
