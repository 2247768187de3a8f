package review

import (
	"errors"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/token"
)

// applyBody is the preview of an apply, or of its undo.
type applyBody struct {
	Cell     *api.StatusResult
	Undo     bool
	Result   *api.ApplyResult
	Conflict []string
	HeldBack []held
	// Problem is any other reason why nothing can be written.
	Problem *api.Problem
	// Choice is the answer to conflicts.
	Choice string
	Setuid bool
}

// held is a file that is not written without leave.
type held struct {
	Path, Text string
	Allowed    bool
}

// Ready reports whether the form can be sent.
func (b applyBody) Ready() bool { return b.Result != nil && len(b.Result.Written) > 0 }

// applyRequest reads the choices of a form.
func applyRequest(cell string, get func(string) string, all func(string) []string) api.ApplyRequest {
	r := api.ApplyRequest{Cell: cell, OnConflict: get("on_conflict"), AllowSetuid: get("setuid") == "yes"}
	for _, p := range all("allow") {
		r.AllowControl = append(r.AllowControl, pattern(p))
	}
	for _, p := range all("leave") {
		r.Except = append(r.Except, pattern(p))
	}
	return r
}

// applyPage shows what an apply would write, and what stops it.
func (q *request) applyPage() error {
	name, err := q.cell()
	if err == nil {
		err = q.need(token.Run, token.Decide)
	}
	if err != nil {
		return err
	}
	v := q.URL.Query()
	body := applyBody{Undo: v.Get("undo") != "", Choice: v.Get("on_conflict"), Setuid: v.Get("setuid") == "yes"}
	if body.Cell, err = q.engine.Status(q.Context(), name); err != nil {
		return err
	}
	if body.Undo {
		body.Result, err = q.engine.Undo(q.Context(), api.UndoRequest{Cell: name, DryRun: true, OnConflict: body.Choice})
	} else {
		r := applyRequest(name, v.Get, func(key string) []string { return v[key] })
		r.DryRun = true
		body.Result, err = q.engine.Apply(q.Context(), r)
	}
	for _, p := range v["allow"] {
		body.HeldBack = append(body.HeldBack, held{Path: p, Text: "allowed", Allowed: true})
	}
	body.explain(q, err)
	title := "Apply " + name
	if body.Undo {
		title = "Undo the last apply of " + name
	}
	return q.show("apply", frame{Title: title, Nav: "cells", Body: body})
}

// explain sorts the reason why nothing can be written.
func (b *applyBody) explain(q *request, err error) {
	if err == nil {
		return
	}
	p := q.site.config.Problem(q.Request, err)
	e, _ := errors.AsType[*api.Error](err)
	switch {
	case e != nil && e.Code == api.CodeConflict:
		b.Conflict = p.Details
	case e != nil && e.Code == api.CodeHeldBack:
		for _, line := range p.Details {
			at, text, _ := strings.Cut(line, ": ")
			b.HeldBack = append(b.HeldBack, held{Path: at, Text: text})
		}
	default:
		b.Problem = &p
	}
}

// writing returns a cell whose source directory is to be written, and an engine for it.
func (q *request) writing() (name string, e Engine, err error) {
	if name, err = q.cell(); err != nil {
		return "", nil, err
	}
	if err = q.need(token.Run, token.Decide); err != nil {
		return "", nil, err
	}
	e, err = q.acting()
	return name, e, err
}

func (q *request) apply() error {
	name, engine, err := q.writing()
	if err != nil {
		return err
	}
	_, err = engine.Apply(q.Context(), applyRequest(name, q.PostForm.Get, func(key string) []string { return q.PostForm[key] }))
	if err != nil {
		return err
	}
	return q.goTo(path("cells", name) + "?done=applied")
}

func (q *request) undo() error {
	name, engine, err := q.writing()
	if err != nil {
		return err
	}
	if _, err := engine.Undo(q.Context(), api.UndoRequest{Cell: name, OnConflict: q.PostForm.Get("on_conflict")}); err != nil {
		return err
	}
	return q.goTo(path("cells", name) + "?done=undone")
}
