package web

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	slashpath "path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const (
	// viewBytes is how much of a file a page shows, entriesOnPage how many entries of
	// a directory.
	viewBytes     = 256 << 10
	entriesOnPage = 200
	// historyRuns is how many runs the history of a path looks at.
	historyRuns = 200
)

func (s *Site) addFiles() {
	s.get("/cells/{cell}/files", (*request).filesPage)
	s.get("/cells/{cell}/files/raw", (*request).rawFile)
	s.get("/cells/{cell}/history", (*request).historyPage)
}

// filesBody is the page of a directory or a file of a state.
type filesBody struct {
	Cell, At, Path string
	Crumbs         []crumb
	Entries        []api.FileInfo
	// First is the number of the first entry of the page; Prev and Next are those of the
	// pages around, or -1.
	First, Prev, Next int
	File              *fileView
}

// crumb is a directory above a path.
type crumb struct{ Name, Path string }

// fileView is the beginning of a file.
type fileView struct {
	api.FileInfo
	Lines  [][]part
	Binary bool
	Cut    bool
}

// place returns the cell, the state and the path of a request for files.
func (q *request) place() (cell, at, p string, err error) {
	cell, err = q.cell()
	v := q.URL.Query()
	if at = v.Get("at"); at == "" {
		at = "HEAD"
	}
	return cell, at, strings.Trim(slashpath.Clean("/"+v.Get("path")), "/"), err
}

func (q *request) filesPage() error {
	cell, at, p, err := q.place()
	if err != nil {
		return err
	}
	body := filesBody{Cell: cell, At: at, Path: p, Crumbs: crumbs(p), Prev: -1, Next: -1}
	if q.URL.Query().Get("view") == "file" {
		if body.File, err = q.viewFile(cell, at, p); err != nil {
			return err
		}
	} else if err := q.listEntries(&body); err != nil {
		return err
	}
	return q.show("files", frame{Title: "Files of " + cell, Nav: "cells", Body: body})
}

func (q *request) listEntries(b *filesBody) error {
	b.First, _ = strconv.Atoi(q.URL.Query().Get("first")) // anything else is the first page
	if b.First = max(0, b.First); b.First > 0 {
		b.Prev = max(0, b.First-entriesOnPage)
	}
	number := 0
	err := q.engine.ListStateFiles(q.Context(), b.Cell, b.At, b.Path, func(i api.FileInfo) error {
		if number++; number <= b.First {
			return nil
		}
		if len(b.Entries) >= entriesOnPage {
			b.Next = b.First + entriesOnPage
			return errFound
		}
		b.Entries = append(b.Entries, i)
		return nil
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

func crumbs(p string) (list []crumb) {
	if p == "" {
		return nil
	}
	at := ""
	for part := range strings.SplitSeq(p, "/") {
		at = strings.TrimPrefix(at+"/"+part, "/")
		list = append(list, crumb{part, at})
	}
	return list
}

// viewFile reads the beginning of a file.
func (q *request) viewFile(cell, at, p string) (*fileView, error) {
	f, err := q.engine.OpenStateFile(q.Context(), cell, at, p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f.Content, viewBytes))
	if err != nil {
		return nil, err
	}
	v := &fileView{FileInfo: f.Info, Cut: f.Info.Size > int64(len(content))}
	if v.Cut {
		for len(content) > 0 && !utf8.RuneStart(content[len(content)-1]) {
			content = content[:len(content)-1]
		}
		content = content[:max(0, len(content)-1)]
	}
	if bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content) {
		v.Binary = true
		return v, nil
	}
	room := bytesOfFile
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	spans := newPainter().paint(p, lines)
	for i, line := range lines {
		r := row{text: line}
		if spans != nil {
			r.spans = spans[i]
		}
		parts := r.plain()
		if room -= (row{Parts: parts}).bytes(); room < 0 {
			v.Cut = true
			break
		}
		v.Lines = append(v.Lines, parts)
	}
	return v, nil
}

// rawFile sends a file for saving.
func (q *request) rawFile() error {
	cell, at, p, err := q.place()
	if err != nil {
		return err
	}
	f, err := q.engine.OpenStateFile(q.Context(), cell, at, p)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	attach(q.w.Header(), "application/octet-stream", slashpath.Base(p))
	http.ServeContent(q.w, q.Request, "", f.Info.MTime, f.Content)
	return nil
}

// historyBody is the history of one path.
type historyBody struct {
	Cell, Path string
	Changes    []pathChange
	Looked     int
	More       bool
	// Unread counts the runs that cannot be compared, and Why says why not the newest.
	Unread int
	Why    string
}

// pathChange is a run that changed a path.
type pathChange struct {
	api.RunInfo
	Kind string
}

// historyPage lists the runs that changed a path, the newest first.
func (q *request) historyPage() error {
	cell, _, p, err := q.place()
	if err != nil {
		return err
	}
	body := historyBody{Cell: cell, Path: p}
	runs, next, err := q.engine.RecentRuns(q.Context(), cell, 0, historyRuns)
	if err != nil {
		return err
	}
	body.Looked, body.More = len(runs), next > 0
	for _, r := range runs {
		if r.After == "" || r.After == r.Before {
			continue
		}
		kind, err := q.changeOf(r, p)
		if err != nil {
			if body.Unread++; body.Unread == 1 {
				body.Why = q.problem(err)
			}
			continue
		}
		if kind != "" {
			body.Changes = append(body.Changes, pathChange{r, kind})
		}
	}
	return q.show("history", frame{Title: "History of a path", Nav: "cells", Body: body})
}

// changeOf returns how a run changed a path or what is below it; "" is not at all.
func (q *request) changeOf(r api.RunInfo, p string) (kind string, err error) {
	res, err := q.engine.Diff(q.Context(), api.DiffRequest{Cell: r.Cell, Run: r.RunID, Paths: []string{p}, Stream: true, Unpaired: r.ChangedFiles > pairedFiles})
	if err != nil {
		return "", err
	}
	err = res.Each(func(c tree.Change) error {
		if kind = string(c.Kind); c.Path != p {
			kind = "modified"
		}
		return errFound
	})
	if kind != "" {
		return kind, nil
	}
	return "", err
}
