package web

import (
	"cmp"
	"errors"
	"net/url"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// answers are those of a form about the paths that stop an apply or an undo.
type answers struct {
	OnConflict string
	Setuid     bool
	// Allow and Leave are paths to write, and to leave as they are. Seen are the
	// conflicts that OnConflict is about.
	Allow, Leave, Seen []string
}

func readAnswers(form url.Values) (a answers, err error) {
	a = answers{OnConflict: form.Get("on_conflict"), Setuid: form.Get("setuid") == "yes"}
	for key, list := range map[string]*[]string{"allow": &a.Allow, "leave": &a.Leave, "seen": &a.Seen} {
		*list = []string{}
		for _, text := range form[key] {
			name, err := url.QueryUnescape(text)
			if err != nil {
				return a, api.Usagef("reload the page", "malformed path in the form")
			}
			*list = append(*list, name)
		}
	}
	return a, nil
}

// run applies or undoes.
func (a answers) run(q *request, e Engine, cell string, undo, dry bool) (*api.ApplyResult, error) {
	seen := a.Seen
	if dry {
		seen = nil // a preview shows all of them
	}
	if undo {
		return e.Undo(q.Context(), api.UndoRequest{Cell: cell, OnConflict: a.OnConflict, Except: patterns(a.Leave), DryRun: dry, Conflicts: seen})
	}
	req := api.ApplyRequest{
		Cell: cell, OnConflict: a.OnConflict, AllowControl: patterns(a.Allow), AllowSetuid: a.Setuid, Except: patterns(a.Leave), DryRun: dry, Conflicts: seen,
	}
	if err := q.visit.Allow(q.Context(), req); err != nil {
		return nil, err
	}
	return e.Apply(q.Context(), req)
}

// patterns returns a pattern for each path.
func patterns(paths []string) (list []string) {
	for _, p := range paths {
		list = append(list, pattern(p))
	}
	return list
}

// applyBody is the preview of an apply, or of its undo.
type applyBody struct {
	answers
	Cell   *api.StatusResult
	Undo   bool
	Result *api.ApplyResult
	// Stopped reports that nothing is written without other answers.
	Stopped bool
	// Conflicts are on both sides, Control can make a tool of the host run something,
	// and Rights gain rights.
	Conflicts, Control, Rights []obstacle
	// Problem is any other reason why nothing can be written.
	Problem *api.Problem
}

// obstacle is a path that stops the apply, or an answer about one.
type obstacle struct {
	Path, Text string
	// Allow is the path that the form allows.
	Allow   string
	Allowed bool
}

// applyPage shows what an apply would write, and what stops it.
func (q *request) applyPage() error {
	name, err := q.cell()
	if err == nil {
		err = q.need(op.Apply)
	}
	if err != nil {
		return err
	}
	v := q.URL.Query()
	body := applyBody{Undo: v.Get("undo") != ""}
	if body.answers, err = readAnswers(v); err != nil {
		return err
	}
	if body.Cell, err = q.engine.Status(q.Context(), name); err != nil {
		return err
	}
	for _, p := range body.Allow {
		body.Control = append(body.Control, obstacle{Path: p, Allow: p, Text: "allowed", Allowed: true})
	}
	body.Result, err = body.run(q, q.engine, name, body.Undo, true)
	if err != nil {
		body.explain(q, err)
	} else {
		for _, c := range body.Result.Chosen {
			body.Conflicts = append(body.Conflicts, obstacle{Path: c.Path, Text: c.Note})
		}
	}
	title := "Apply " + name
	if body.Undo {
		title = "Undo the last apply of " + name
	}
	return q.show("apply", frame{Title: title, Nav: "cells", Body: body})
}

// explain sorts the reasons why nothing can be written.
func (b *applyBody) explain(q *request, err error) {
	b.Stopped = true
	stops, ok := errors.AsType[*api.ObstacleError](err)
	if !ok {
		p := q.site.config.Problem(q.Request, err)
		b.Problem = &p
		return
	}
	for _, o := range stops.Obstacles {
		row := obstacle{Path: o.Path, Text: o.Reason, Allow: cmp.Or(o.Allow, o.Path)}
		switch {
		case api.CodeOf(err) == api.CodeConflict:
			b.Conflicts = append(b.Conflicts, row)
		case o.Rights:
			b.Rights = append(b.Rights, row)
		default:
			b.Control = append(b.Control, row)
		}
	}
}

// Asks reports whether the page has a question.
func (b applyBody) Asks() bool {
	return b.Setuid || len(b.Conflicts)+len(b.Control)+len(b.Rights)+len(b.Leave) > 0
}

// Ready reports whether the form can be sent.
func (b applyBody) Ready() bool { return !b.Stopped && len(b.Result.Written) > 0 }

// write applies or undoes as a form says.
func (q *request) write(undo bool, done string) error {
	name, err := q.cell()
	if err == nil && undo {
		err = q.need(op.Undo)
	} else if err == nil {
		err = q.need(op.Apply)
	}
	if err != nil {
		return err
	}
	engine, err := q.acting()
	if err != nil {
		return err
	}
	a, err := readAnswers(q.PostForm)
	if err != nil {
		return err
	}
	if _, err := a.run(q, engine, name, undo, false); err != nil {
		return err
	}
	return q.goTo(path("cells", name) + "?done=" + done)
}

func (q *request) apply() error { return q.write(false, "applied") }

func (q *request) undo() error { return q.write(true, "undone") }
