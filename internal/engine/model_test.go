package engine_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// node is a file (its data), a directory, or a link (its target).
type node struct {
	kind byte // f, d, l
	data string
	mode uint32
}

// state is what a directory holds, by path: the model that histories are
// compared with. It knows nothing of layers, journals or manifests.
type state map[string]node

func (s state) clone() state {
	c := make(state, len(s))
	for p, n := range s {
		c[p] = n
	}
	return c
}

func (s state) equal(o state) bool {
	return len(s) == len(o) && s.text() == o.text()
}

func (s state) text() string {
	var lines []string
	for p, n := range s {
		lines = append(lines, fmt.Sprintf("%q %c %o %q", p, n.kind, n.mode, n.data))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// remove deletes a path and everything below it.
func (s state) remove(p string) {
	for q := range s {
		if q == p || strings.HasPrefix(q, p+"/") {
			delete(s, q)
		}
	}
}

// valid reports whether every path is in a directory.
func (s state) valid() bool {
	for p := range s {
		if dir := path.Dir(p); dir != "." && s[dir].kind != 'd' {
			return false
		}
	}
	return true
}

// merge3 applies the changes from base to theirs to ours; ok is false if both
// sides changed the same path differently.
func merge3(base, theirs, ours state) (state, bool) {
	out, all := state{}, map[string]bool{}
	for _, s := range []state{base, theirs, ours} {
		for p := range s {
			all[p] = true
		}
	}
	for p := range all {
		was, inBase := base[p]
		now, inTheirs := theirs[p]
		have, inOurs := ours[p]
		switch {
		case inBase == inTheirs && was == now:
			if inOurs {
				out[p] = have
			}
		case inBase == inOurs && was == have || inTheirs == inOurs && now == have:
			if inTheirs {
				out[p] = now
			}
		default:
			return nil, false
		}
	}
	return out, out.valid()
}

// chosen takes the top-level names that are selected from one state and the
// rest from the other.
func chosen(name string, from, rest state) state {
	out := rest.clone()
	out.remove(name)
	for p, n := range from {
		if p == name || strings.HasPrefix(p, name+"/") {
			out[p] = n
		}
	}
	return out
}

// edit is one change to a directory, as shell code and in the model.
type edit struct {
	rng    *rand.Rand
	paths  []string
	state  state
	script []string
}

// The paths that cells and people change overlap a little.
var (
	cellPaths   = []string{"a", "a/x", "a/y", "a/c", "a/c/x", "a/c/it's", "b", "b/x", "b/.wh.x", "x", "y", "sp ace", ".dot"}
	peoplePaths = []string{"s", "s/x", "s/y", "s/c", "s/c/x", "t", "t/x", "docs/a.md", "hello.txt", "b", "b/y", "x"}
)

func (e *edit) pick() string { return e.paths[e.rng.IntN(len(e.paths))] }

func (e *edit) sh(format string, args ...string) {
	quoted := make([]any, len(args))
	for i, a := range args {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	e.script = append(e.script, fmt.Sprintf(format, quoted...))
}

// room makes p's directories directories.
func (e *edit) room(p string) {
	dir := path.Dir(p)
	if dir == "." {
		return
	}
	e.room(dir)
	if e.state[dir].kind != 'd' {
		e.state.remove(dir)
		e.state[dir] = node{kind: 'd', mode: 0o755}
		e.sh("rm -rf %s; mkdir -m 755 %s", dir, dir)
	}
}

func (e *edit) put(p string, n node) {
	e.room(p)
	e.state.remove(p)
	e.state[p] = n
	switch n.kind {
	case 'f':
		e.sh("rm -rf %s; printf %s > %s; chmod "+fmt.Sprintf("%o", n.mode)+" %s", p, n.data, p, p)
	case 'd':
		e.sh("rm -rf %s; mkdir -m 755 %s", p, p)
	case 'l':
		e.sh("rm -rf %s; ln -s %s %s", p, n.data, p)
	}
}

func (e *edit) move(from, to string) {
	if _, there := e.state[from]; !there || strings.HasPrefix(to+"/", from+"/") || strings.HasPrefix(from+"/", to+"/") {
		return
	}
	e.room(to)
	if _, there := e.state[from]; !there {
		return // it made room
	}
	moved := state{}
	for p, n := range e.state {
		if p == from || strings.HasPrefix(p, from+"/") {
			moved[to+p[len(from):]] = n
		}
	}
	e.state.remove(to)
	e.state.remove(from)
	for p, n := range moved {
		e.state[p] = n
	}
	e.sh("rm -rf %s; mv %s %s", to, from, to)
}

// change picks one random change.
func (e *edit) change() {
	modes := []uint32{0o644, 0o600, 0o755}
	p := e.pick()
	switch e.rng.IntN(10) {
	case 0, 1, 2, 3:
		e.put(p, node{'f', fmt.Sprintf("data%d", e.rng.IntN(6)), modes[e.rng.IntN(len(modes))]})
	case 4:
		e.put(p, node{kind: 'd', mode: 0o755})
	case 5:
		e.put(p, node{'l', []string{"x", "/etc", "..", "nowhere"}[e.rng.IntN(4)], 0o777})
	case 6, 7:
		e.state.remove(p)
		e.sh("rm -rf %s", p)
	case 8:
		e.move(p, e.pick())
	case 9:
		if n := e.state[p]; n.kind == 'f' {
			n.mode = modes[e.rng.IntN(len(modes))]
			e.state[p] = n
			e.sh("chmod "+fmt.Sprintf("%o", n.mode)+" %s", p)
		}
	}
}

// edits picks up to n random changes of a state, and returns the shell code and
// the state after them.
func edits(rng *rand.Rand, paths []string, from state, n int) (string, state) {
	e := &edit{rng: rng, paths: paths, state: from.clone()}
	for range 1 + rng.IntN(n) {
		e.change()
	}
	return "set -e\n" + strings.Join(e.script, "\n") + "\n", e.state
}

// read reads a real directory.
func (w *world) state(dir string) state {
	w.Helper()
	s := state{}
	for _, t := range walk(w.T, dir) {
		if t.Path == "." {
			continue
		}
		switch t.Type {
		case unix.S_IFREG:
			data, err := os.ReadFile(filepath.Join(dir, t.Path))
			w.ok(err)
			s[t.Path] = node{'f', string(data), t.Mode}
		case unix.S_IFDIR:
			s[t.Path] = node{kind: 'd', mode: t.Mode}
		case unix.S_IFLNK:
			s[t.Path] = node{'l', t.Target, t.Mode}
		default:
			w.Fatalf("%q is of type %o", t.Path, t.Type)
		}
	}
	return s
}

func (w *world) sameState(what string, want, got state) {
	w.Helper()
	if want.equal(got) {
		return
	}
	a, b := strings.Split(want.text(), "\n"), strings.Split(got.text(), "\n")
	var diff []string
	for _, l := range a {
		if !slices.Contains(b, l) {
			diff = append(diff, "- "+l)
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			diff = append(diff, "+ "+l)
		}
	}
	w.Fatalf("%s is not as the model says:\n%s", what, strings.Join(diff, "\n"))
}
