package diff

import (
	"errors"
	"path"

	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// controlFiles returns what makes control files of changes, by their paths: by where an
// apply would write them, and with the settings that are there. The contents of files in
// git directories, which an apply examines as well, are not read.
func (d *comparison) controlFiles(owners []store.Cell, changes []tree.Change) (found map[string]string, err error) {
	from, to, err := d.e.Trees(d.from, d.to, workspace.AreaWorkspace)
	if err != nil {
		return nil, d.e.ReadError(err, d.from, d.to)
	}
	source := d.openSource()
	if source != nil {
		defer func() { err = errors.Join(err, source.Close()) }()
	}
	gate, err := d.gate(source, d.e.WorkspaceView(owners[0], d.from, from), d.e.WorkspaceView(owners[1], d.to, to))
	if err != nil {
		return nil, err
	}
	entries := outgoingOf(changes)
	changed := make([]string, len(entries))
	for i, e := range entries {
		changed[i] = e.Path
	}
	links, err := home.NewLinkFinder(from, d.cell.MountAt, changed)
	if err != nil {
		return nil, err
	}
	gate.Follow(links)
	list := map[string]string{}
	for _, e := range entries {
		what, yes, err := gate.Control(e.Path, e.Dir)
		if err != nil {
			return nil, err
		}
		if yes {
			list[e.Path] = what
		}
	}
	return list, nil
}

// outgoingOf returns the paths of the workspace that changes write or remove.
func outgoingOf(changes []tree.Change) (list []outgoing.Entry) {
	for _, ch := range changes {
		if path.IsAbs(ch.Path) {
			continue // an apply does not write it
		}
		list = append(list, home.Outgoing(ch.Path, ch.Old, ch.New))
		if ch.OldPath != "" {
			list = append(list, home.Outgoing(ch.OldPath, ch.Old, nil))
		}
	}
	return list
}

// openSource opens the directory that an apply writes to. It is nil if there is none, if the
// caller cannot use it, or if it has the changes already.
func (d *comparison) openSource() *fsx.Dir {
	if d.cell.Live != "" || d.cell.SourceKind != "dir" {
		return nil
	}
	dir, err := d.e.OpenHost(d.cell.Source)
	if err != nil {
		return nil // an apply fails, and a comparison does without it
	}
	return dir
}

// gate returns what decides about the changes: that of the source directory, or, without
// one, that of the state before them.
func (d *comparison) gate(source *fsx.Dir, before, after *outgoing.View) (*outgoing.Gate, error) {
	if source != nil {
		gate, err := home.Gate(d.cell.Source, nil)
		if err == nil {
			ours := outgoing.ViewOf(source)
			gate.CompareRepositories(ours, outgoing.Overlay(after, ours))
		}
		return gate, err
	}
	if d.cell.Live != "" {
		return LiveGate(d.cell, before, after)
	}
	gate, err := outgoing.New(outgoing.Place{}, nil)
	if err == nil {
		err = gate.Obey(before, d.cell.MountAt)
	}
	if err == nil {
		gate.CompareRepositories(before, outgoing.Overlay(after, before))
	}
	return gate, err
}

// LiveGate returns the gate of a live directory, which has the changes already.
func LiveGate(c store.Cell, before, after *outgoing.View) (*outgoing.Gate, error) {
	gate, err := home.Gate(c.Live, nil)
	if err == nil {
		err = gate.Obey(before, c.Live)
	}
	if err == nil {
		gate.CompareRepositories(before, outgoing.Overlay(after, before))
	}
	return gate, err
}
