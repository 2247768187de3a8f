package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

const (
	// cellsOnPage is how many cells a page lists.
	cellsOnPage = 200
	// activitiesOnPage is of how many cells a page shows what they do.
	activitiesOnPage = 100
)

// addPages adds the pages for visitors who have signed in.
func (s *Site) addPages() {
	s.get("/{$}", (*request).cellsPage)
	s.addCell()
	s.addAgent()
	s.addRun()
	s.addFiles()
	s.addEvents()
	s.addCompare()
	s.addOperator()
	s.addLive()
	s.mux.HandleFunc(sitePath+"/", func(w http.ResponseWriter, r *http.Request) {
		s.admit(w, r, func(q *request) error {
			return api.Missing("page", q.URL.Path, "the page of cells leads to the others")
		})
	})
}

// cellsBody is the page of all cells.
type cellsBody struct {
	Groups        []cellGroup
	Search        string
	Shown, Total  int
	Pending, Live int
	// First is the number of the first cell on the page; Prev and Next are those of
	// the pages around, or -1.
	First, Prev, Next int
	OwnBytes          int64
}

// cellGroup is a cell with its forks.
type cellGroup struct {
	Root  string
	Cells []cellLine
	// Forks reports that there are several forks to compare.
	Forks bool
	// More counts forks that are not listed.
	More int

	// pending and live report whether one of all its cells is.
	pending, live bool
}

// cellLine is a cell, and how deep it is in its group.
type cellLine struct {
	api.CellInfo
	Fork bool
	// Activity is the run that is at work, if there is one.
	Activity *api.RunInfo
}

// Pending reports whether the last run of the cell waits for a decision.
func (c cellLine) Pending() bool { return c.LastDecision == "pending" }

func (c cellLine) isLive() bool { return c.State != api.StateIdle }

// visibleCells lists the cells that the visitor may know of.
func (q *request) visibleCells(ctx context.Context) ([]api.CellInfo, error) {
	list, err := q.engine.List(ctx)
	return slices.DeleteFunc(list, func(c api.CellInfo) bool { return !q.visit.Sees(c.Cell) }), err
}

func (q *request) cellsPage() error {
	list, err := q.visibleCells(q.Context())
	if err != nil {
		return err
	}
	body := cellsBody{Search: q.URL.Query().Get("q"), Total: len(list), Prev: -1, Next: -1}
	body.First, _ = strconv.Atoi(q.URL.Query().Get("first")) // anything else is the first page
	for _, c := range list {
		body.OwnBytes += c.OwnBytes
		line := cellLine{CellInfo: c}
		if line.Pending() {
			body.Pending++
		}
		if line.isLive() {
			body.Live++
		}
	}
	if body.Search != "" {
		list = slices.DeleteFunc(list, func(c api.CellInfo) bool { return !matches(c, body.Search) })
	}
	groups := groupCells(list)
	body.page(groups)
	q.addActivities(body.Groups)
	return q.show("cells", frame{Title: "Cells", Nav: "cells", Live: path("live"), Body: body})
}

// addActivities finds what the cells that are at work do.
func (q *request) addActivities(groups []cellGroup) {
	room := activitiesOnPage
	for _, g := range groups {
		for i, c := range g.Cells {
			if !c.isLive() || c.State == api.StateUnfinished || room == 0 {
				continue
			}
			room--
			// A cell whose runs cannot be read, as it was just removed, is listed without.
			runs, _, err := q.engine.RecentRuns(q.Context(), c.Cell, 0, 1)
			if err == nil && len(runs) == 1 && runs[0].FinishedAt == nil {
				g.Cells[i].Activity = &runs[0]
			}
		}
	}
}

// matches reports whether a cell has a text in its name, source or labels.
func matches(c api.CellInfo, text string) bool {
	text = strings.ToLower(text)
	for key, value := range c.Labels {
		if strings.Contains(strings.ToLower(key+"="+value), text) {
			return true
		}
	}
	return strings.Contains(strings.ToLower(c.Cell), text) || strings.Contains(strings.ToLower(c.Source), text) || c.ForkedFrom != "" && "fork of "+strings.ToLower(c.ForkedFrom) == text || c.State == text || c.LastDecision == text
}

// page keeps the groups of one page.
func (b *cellsBody) page(groups []cellGroup) {
	at := 0
	for _, g := range groups {
		if at >= b.First && b.Shown < cellsOnPage {
			b.Groups = append(b.Groups, g)
			b.Shown += len(g.Cells)
		} else if at >= b.First && b.Next < 0 {
			b.Next = at
		}
		at += len(g.Cells)
	}
	if b.First > 0 {
		b.Prev = max(0, b.First-cellsOnPage)
	}
}

// groupCells puts forks below the cell that they come from, those that wait for a
// decision first. Groups that have some come first, then live ones, then the newest.
func groupCells(list []api.CellInfo) []cellGroup {
	parents := map[string]string{}
	for _, c := range list {
		parents[c.Cell] = c.ForkedFrom
	}
	groups := map[string]*cellGroup{}
	var order []*cellGroup
	for _, c := range list {
		root := rootOf(parents, c.Cell)
		g := groups[root]
		if g == nil {
			g = &cellGroup{Root: root}
			groups[root] = g
			order = append(order, g)
		}
		g.Cells = append(g.Cells, cellLine{CellInfo: c, Fork: c.Cell != root})
	}
	out := make([]cellGroup, 0, len(order))
	for _, g := range order {
		slices.SortFunc(g.Cells, func(a, b cellLine) int {
			return cmp.Or(compareBool(!a.Fork, !b.Fork), compareBool(a.Pending(), b.Pending()), naturally(a.Cell, b.Cell))
		})
		g.Forks = len(g.Cells) > 2
		g.pending, g.live = g.any(cellLine.Pending), g.any(cellLine.isLive)
		g.fold()
		out = append(out, *g)
	}
	slices.SortStableFunc(out, func(a, b cellGroup) int {
		return cmp.Or(compareBool(a.pending, b.pending), compareBool(a.live, b.live), b.newest().Compare(a.newest()))
	})
	return out
}

// forksShown is how many forks of a cell the list of cells shows.
const forksShown = 25

// fold keeps the first forks, and those that are at work.
func (g *cellGroup) fold() {
	shown := 0
	g.Cells = slices.DeleteFunc(g.Cells, func(c cellLine) bool {
		if shown++; shown <= forksShown+1 || c.isLive() {
			return false
		}
		g.More++
		return true
	})
}

func (g cellGroup) any(has func(cellLine) bool) bool { return slices.ContainsFunc(g.Cells, has) }

func (g cellGroup) newest() (t time.Time) {
	for _, c := range g.Cells {
		if c.CreatedAt.After(t) {
			t = c.CreatedAt
		}
	}
	return t
}

// rootOf returns the first cell of a line of forks that is in the list.
func rootOf(parents map[string]string, name string) string {
	for range len(parents) {
		parent := parents[name]
		if _, listed := parents[parent]; parent == "" || !listed {
			return name
		}
		name = parent
	}
	return name
}

// compareBool puts what is true first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// naturally compares names so that a number at the end counts as one.
func naturally(a, b string) int {
	headA, numberA := splitNumber(a)
	headB, numberB := splitNumber(b)
	return cmp.Or(strings.Compare(headA, headB), cmp.Compare(numberA, numberB), strings.Compare(a, b))
}

func splitNumber(s string) (string, int) {
	head := strings.TrimRight(s, "0123456789")
	n, err := strconv.Atoi(s[len(head):])
	if err != nil {
		return s, -1
	}
	return head, n
}
