package web

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const (
	// filesOnPage is how many changed files a page lists, linesOnPage and bytesOnPage
	// about how many lines and bytes of them it shows. The others are folded.
	filesOnPage = 100
	linesOnPage = 1500
	bytesOnPage = 1 << 20
	filesOpen   = 25
	// pairedFiles is the number of changes up to which renames are found.
	pairedFiles = 5000
)

// changes is a page of the changes between two states.
type changes struct {
	Files []*fileDiff
	// Aside are changes that apply leaves out unless they are allowed by name.
	// AsideTotal counts also those that are not listed.
	Aside      []*fileDiff
	AsideTotal int
	// First is the number of the first file on the page, from 0.
	First, Total int
	// Added and Gone count lines of the files that are open.
	Added, Gone int
	Notes       []string
	From, To    string
	// Runs is the undecided work whose changes these are, Earlier what is before it.
	Runs    []string
	Earlier []api.EarlierWork
	// Elsewhere counts what differs outside the workspace.
	Elsewhere []api.AreaChange
	// View is unified or split, Space is ignore or "".
	View, Space string

	here url.URL
}

// Here returns the address of the page with another choice.
func (c *changes) Here(key, value string) string {
	v := c.here.Query()
	v.Del("done")
	if value == "" {
		v.Del(key)
	} else {
		v.Set(key, value)
	}
	return (&url.URL{Path: c.here.Path, RawQuery: v.Encode()}).String()
}

// HereAt returns the address of the page that begins with a file.
func (c *changes) HereAt(first int) string { return c.Here("first", strconv.Itoa(first)) }

// Prev and Next are the numbers of the first files of the pages around, or -1.
func (c *changes) Prev() int {
	if c.First == 0 {
		return -1
	}
	return max(0, c.First-filesOnPage)
}

// Next is as Prev.
func (c *changes) Next() int {
	if c.First+len(c.Files) >= c.Total {
		return -1
	}
	return c.First + filesOnPage
}

// Paged reports whether the list has other pages.
func (c *changes) Paged() bool { return c.Prev() >= 0 || c.Next() >= 0 }

// Last is the number of the last file on the page, from 1.
func (c *changes) Last() int { return c.First + len(c.Files) }

// Split reports whether the two sides are beside each other.
func (c *changes) Split() bool { return c.View == "split" }

// diffOptions says how changes are shown.
type diffOptions struct {
	first int
	view  string
	space string
	here  url.URL
	// known is the number of changes, if it is known: then the comparison ends with
	// the page. 0 is unknown.
	known int
	// open shows all files of the page up to the limits; without it the files are
	// only listed.
	open bool
}

// options reads how a visitor wants to see changes.
func (q *request) options() (diffOptions, error) {
	v := q.URL.Query()
	o := diffOptions{view: v.Get("view"), space: v.Get("space"), open: true, here: *q.URL}
	if o.view != "split" {
		o.view = "unified"
	}
	if o.space != "ignore" {
		o.space = ""
	}
	if text := v.Get("first"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return o, api.Usagef("use the links between pages", "malformed number of a file")
		}
		o.first = n
	}
	return o, nil
}

// compare reads one page of the changes of a request for a diff. Only that page is in
// memory.
func compare(ctx context.Context, e comparer, r api.DiffRequest, o diffOptions) (*changes, error) {
	r.Stream, r.Unpaired = true, o.known > pairedFiles
	res, err := e.Diff(ctx, r)
	if err != nil {
		return nil, err
	}
	page := &changes{First: o.first, Notes: res.Notes, From: res.From, To: res.To, Runs: res.Runs, Earlier: res.Earlier, Elsewhere: res.Elsewhere, View: o.view, Space: o.space, here: o.here}
	var raw []tree.Change
	err = res.Each(func(c tree.Change) error {
		if page.Total >= o.first && len(raw) < filesOnPage {
			raw = append(raw, c)
		}
		page.Total++
		if r.Unpaired && len(raw) == filesOnPage {
			return errFound
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return nil, err
	}
	if r.Unpaired {
		page.Total = max(page.Total, o.known)
		page.Notes = append(page.Notes, "so many files changed that renamed ones are listed as deleted and added")
	}
	if len(res.Elsewhere) > 0 {
		page.Notes = append(page.Notes, "outside the workspace, and not in this list: "+api.ElsewhereText(res.Elsewhere))
	}
	page.AsideTotal = len(res.RawAside)
	page.fill(raw, res, o)
	return page, nil
}

// fill adds the files of a page, and opens the first ones.
func (c *changes) fill(raw []tree.Change, res *engine.DiffResult, o diffOptions) {
	aside := res.RawAside[:min(len(res.RawAside), filesOnPage)]
	control, err := res.Control(slices.Concat(raw, aside))
	if err != nil {
		c.Notes = append(c.Notes, controlUnknown(err))
	}
	room, paint := bytesOnPage, newPainter()
	add := func(list *[]*fileDiff, ch tree.Change) {
		d := newFileDiff(ch, control)
		d.Split = c.Split()
		if o.open && len(*list) < filesOpen && c.Added+c.Gone < linesOnPage && room > 0 {
			room -= d.load(ch, openerOf(res), o.space == "ignore", room, paint)
			if d.Cut || d.Added+d.Gone > linesOnPage {
				d.Hunks, d.Folded = nil, true
			}
		}
		c.Added, c.Gone = c.Added+d.Added, c.Gone+d.Gone
		*list = append(*list, d)
	}
	for _, ch := range raw {
		add(&c.Files, ch)
	}
	for _, ch := range aside {
		add(&c.Aside, ch)
	}
}

// controlUnknown says that control files are not marked.
func controlUnknown(err error) string {
	return "it is not known what is a control file, and none is marked: " + err.Error()
}

// AsideHeading is the heading of changes that are set aside.
func (c *changes) AsideHeading() string { return engine.AsideHeading }

// errFound ends a comparison.
var errFound = errors.New("found")

// findChange returns the change of one path in a comparison.
func findChange(ctx context.Context, e comparer, r api.DiffRequest, path string) (*tree.Change, *engine.DiffResult, error) {
	r.Stream, r.Paths = true, []string{path}
	res, err := e.Diff(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	var found *tree.Change
	match := func(c tree.Change) error {
		if c.Path != path {
			return nil
		}
		found = &c
		return errFound
	}
	if err = res.EachAside(match); err == nil {
		err = res.Each(match)
	}
	if err != nil && !errors.Is(err, errFound) {
		return nil, nil, err
	}
	if found == nil {
		return nil, nil, api.Missing("change of", path, "the page of the run lists the changed files")
	}
	return found, res, nil
}
