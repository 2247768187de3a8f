package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"image"
	_ "image/gif" // the pictures that a page shows
	_ "image/jpeg"
	_ "image/png"
	"io"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/storage/patch"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const (
	// maxImage bounds a picture, in bytes and in pixels.
	maxImage  = 4 << 20
	maxPixels = 40 << 20
	// bytesOfFile is about how much the page of one file shows.
	bytesOfFile = 2 << 20
)

// fileBody is the page of one changed file.
type fileBody struct {
	Run  *api.RunInfo
	File *fileDiff
	// View and Space are those of changes.
	View, Space string
}

// Split reports whether the two sides are beside each other.
func (b fileBody) Split() bool { return b.View == "split" }

func (q *request) runFile() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	o, err := q.options()
	if err != nil {
		return err
	}
	c, res, err := q.findChange(info, q.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	control, err := res.Control([]tree.Change{*c})
	d := newFileDiff(*c, control)
	if err != nil {
		d.Notes = append(d.Notes, controlUnknown(err))
	}
	d.load(*c, openerOf(res), o.space == "ignore", bytesOfFile, newPainter())
	d.showPictures(info.RunID)
	body := fileBody{Run: info, File: d, View: o.view, Space: o.space}
	d.Split = body.Split()
	return q.show("file", frame{Title: "Change of a file", Nav: "cells", Body: body})
}

// findChange returns the change of one path that the page of a run shows.
func (q *request) findChange(info *api.RunInfo, name string) (*tree.Change, *engine.DiffResult, error) {
	r, all, err := q.changesOf(q.Context(), info)
	if err != nil {
		return nil, nil, err
	}
	r.Unpaired = !all && info.ChangedFiles > pairedFiles
	return findChange(q.Context(), q.engine, r, name)
}

// runImage sends one side of a changed picture: contents that have the digest of the
// state, and are a picture of points. Anything else a browser could execute.
func (q *request) runImage() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	v := q.URL.Query()
	c, res, err := q.findChange(info, v.Get("path"))
	if err != nil {
		return err
	}
	side, at, entry := patch.New, c.Path, c.New
	if v.Get("side") == "old" {
		side, entry = patch.Old, c.Old
		if c.OldPath != "" {
			at = c.OldPath
		}
	}
	if entry == nil || entry.Kind != tree.KindFile {
		return api.Missing("picture", at, "")
	}
	content, kind, err := readImage(openerOf(res), side, at, *entry)
	if err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = q.w.Write(content)
	return nil
}

func readImage(open patch.Opener, side int, at string, e tree.Entry) (content []byte, kind string, err error) {
	refuse := func(what string) error { return api.Refusef(api.CodeNotFile, "download the file", "%s", what) }
	if e.Size > maxImage {
		return nil, "", refuse("the picture is too large to be shown")
	}
	r, err := open(side, at, e)
	if err != nil {
		return nil, "", err
	}
	content, err = io.ReadAll(io.LimitReader(r, maxImage+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, "", err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != e.Digest.String() {
		return nil, "", refuse("the contents do not have the digest of the state")
	}
	size, format, err := image.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return nil, "", refuse("this is no picture that can be shown")
	}
	if size.Width*size.Height > maxPixels {
		return nil, "", refuse("the picture has too many points to be shown")
	}
	return content, "image/" + format, nil
}

// attach lets an answer be saved as a file. The name is ours, not that of a cell.
func attach(h http.Header, kind, name string) {
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", `attachment; filename="`+safeName(name)+`"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}

// safeName returns a name of letters, digits, dots and hyphens.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	name = strings.TrimLeft(name, ".")
	if len(name) > 100 {
		name = name[len(name)-100:]
	}
	if name == "" {
		return "file"
	}
	return name
}
