package apply

import (
	"fmt"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// remainder is the contents of a directory of ours that theirs does not remove.
type remainder struct {
	left    string // something that is left out
	staying string // something that was decided to stay
	foreign string // something that base never knew
}

// leave decides the removal of a directory, or its replacement by something
// else. Everything below it is decided already.
func (m *merger) leave(path string, old, now *tree.Entry) error {
	if done, err := m.needsNoDecision(path, old, now); done || err != nil {
		return err
	}
	have, err := m.ours(path)
	if err != nil {
		return err
	}
	if m.equal(have, now) {
		m.already = append(m.already, path)
		m.stays[path] = true
		return nil
	}
	if !isDir(have) {
		return m.collide(path, now, m.reason(old, have, now))
	}
	r, err := m.findRemaining(path)
	if err != nil {
		return err
	}
	switch {
	case !m.equal(have, old):
		return m.collide(path, now, m.reason(old, have, now))
	case r.foreign != "" && m.opt.Undo:
		return m.collide(path, now, fmt.Sprintf("was added by the apply and holds %q, which is newer", r.foreign))
	case r.foreign != "":
		return m.collide(path, now, fmt.Sprintf("is removed %s but holds %q, which is new %s", m.sides().b, r.foreign, m.sides().a))
	case now != nil && (r.left != "" || r.staying != "") && m.opt.Undo:
		return m.refuse(path, now, fmt.Sprintf("was not a directory before the apply and holds %q, which stays", r.left+r.staying))
	case now != nil && (r.left != "" || r.staying != ""):
		return m.refuse(path, now, fmt.Sprintf("is not a directory any more %s but holds %q, which stays", m.sides().b, r.left+r.staying))
	case r.staying != "":
		m.stays[path] = true
		return nil
	}
	return m.take(path, now)
}

func (m *merger) names(path string) ([]string, error) {
	if m.opt.Names == nil {
		return nil, nil
	}
	return m.opt.Names(path)
}

// findRemaining looks for what would be in the directory after all other decisions.
func (m *merger) findRemaining(path string) (remainder, error) {
	var r remainder
	names, err := m.names(path)
	if err != nil {
		return r, err
	}
	for _, name := range names {
		child := under(path, name)
		if op, planned := m.plan[child]; planned && op.New == nil {
			continue
		}
		have, err := m.ours(child)
		if err != nil {
			return r, err
		}
		if have == nil {
			continue
		}
		known, err := m.base(child)
		if err != nil {
			return r, err
		}
		switch {
		case m.leftOut(child, isDir(have)):
			r.left = child
		case m.stays[child] || known != nil:
			r.staying = child
		case r.foreign == "":
			r.foreign = child
		}
	}
	return r, nil
}

// empty plans the removal of everything that a directory of ours still holds,
// and returns something that must stay instead, if there is such a thing:
// always what was decided to stay, and what is left out only if the directory
// has to make room.
func (m *merger) empty(path string, makeRoom bool) (kept string, err error) {
	names, err := m.names(path)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		child := under(path, name)
		if _, planned := m.plan[child]; planned {
			continue
		}
		have, err := m.ours(child)
		if err != nil {
			return "", err
		}
		switch {
		case have == nil:
			continue
		case m.leftOut(child, isDir(have)):
			if makeRoom {
				return child, nil
			}
			continue
		case m.stays[child]:
			return child, nil
		}
		if isDir(have) {
			if kept, err := m.empty(child, makeRoom); kept != "" || err != nil {
				return kept, err
			}
		}
		m.plan[child] = Op{Path: child, Old: have}
	}
	return "", nil
}
