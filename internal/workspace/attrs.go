package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/fsx"
)

const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
	fileCaps   = "security.capability"
)

// attrRules say what becomes of each extended attribute.
type attrRules struct {
	// own is the prefix of the attributes that the kernel keeps in this home's
	// upper directories; "" where there are none to be expected.
	own string
	// caps says that file capabilities can be kept: only root may set them.
	caps bool
}

// plainAttrs are the rules for trees that are not overlay layers.
func (s *Store) plainAttrs() attrRules { return attrRules{caps: s.opt.Root} }

// upperAttrs are the rules for overlay layers.
func (s *Store) upperAttrs() attrRules {
	return attrRules{own: s.attrKind() + ".overlay.", caps: s.opt.Root}
}

// kernelAttrs are what overlay writes with the options that we mount with.
// Others (redirect, metacopy) would mean that a layer is not plain.
var kernelAttrs = []string{"opaque", "impure", "origin", "nlink", "uuid", "upper"}

// sift keeps what belongs to a state. It also tells whether a directory is
// opaque, what has to be refused, and what cannot be kept.
func (r attrRules) sift(all []fsx.Xattr) (kept []fsx.Xattr, opaque bool, refused, lost []string) {
	for _, x := range all {
		switch {
		case strings.HasPrefix(x.Name, "user.overlay.") || strings.HasPrefix(x.Name, "trusted.overlay."):
			name, own := strings.CutPrefix(x.Name, r.own)
			if r.own == "" || !own || !slices.Contains(kernelAttrs, name) || name == "opaque" && string(x.Value) != "y" {
				refused = append(refused, x.Name)
				continue
			}
			opaque = opaque || name == "opaque"
		case strings.HasPrefix(x.Name, "user."), x.Name == aclAccess, x.Name == aclDefault, x.Name == fileCaps && r.caps:
			kept = append(kept, x)
		default:
			lost = append(lost, x.Name)
		}
	}
	return kept, opaque, refused, lost
}

// refusals gathers what several areas cannot keep, so that all of it is named at
// once.
type refusals struct{ problems []string }

// add takes an *UnsealableError; others it gives back.
func (r *refusals) add(err error) error {
	var u *UnsealableError
	if !errors.As(err, &u) {
		return err
	}
	r.problems = append(r.problems, u.Problems...)
	return nil
}

func (r *refusals) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return &UnsealableError{Problems: r.problems}
}

// findings gathers, from many goroutines, what a walk has to tell.
type findings struct {
	mu       sync.Mutex
	problems []string
	refused  []Refused
	leftOut  []LeftOut
	kept     []string
	open     []string
	notes    []string
	lost     map[string]*lostAttr
	owners   map[[2]uint32]*Owners
}

type lostAttr struct {
	count int
	path  string
}

func newFindings() *findings {
	return &findings{lost: map[string]*lostAttr{}, owners: map[[2]uint32]*Owners{}}
}

// refuse notes what cannot be kept.
func (f *findings) refuse(r Refused, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = append(f.problems, shortName(r.Path)+": "+what)
	f.refused = append(f.refused, r)
}

// attrs notes what sift could not keep.
func (f *findings) attrs(path string, refused, lost []string) {
	for _, name := range refused {
		f.refuse(Refused{Path: path, Attr: name}, "attribute "+name)
	}
	if len(lost) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range lost {
		l := f.lost[name]
		if l == nil {
			l = &lostAttr{path: path}
			f.lost[name] = l
		}
		l.count++
		l.path = min(l.path, path)
	}
}

func (f *findings) leave(path, rule string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leftOut = append(f.leftOut, LeftOut{Path: path, Rule: rule})
}

func (f *findings) keep(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = append(f.kept, path)
}

// public notes a file that was kept because it holds nothing secret.
func (f *findings) public(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, path)
}

// note keeps a sentence for the report.
func (f *findings) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, text)
}

// owner notes an owner that the cell cannot show.
func (f *findings) owner(path string, uid, gid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := [2]uint32{uid, gid}
	o := f.owners[key]
	if o == nil {
		o = &Owners{UID: uid, GID: gid, Example: path}
		f.owners[key] = o
	}
	o.Count++
	o.Example = min(o.Example, path)
}

// err is the refusal that the walk ends with, or nil.
func (f *findings) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.problems) == 0 {
		return nil
	}
	slices.Sort(f.problems)
	return &UnsealableError{Problems: slices.Compact(f.problems), Refused: slices.Clone(f.refused)}
}

// report sorts everything that was found. Directories that were read twice may
// have been noted twice.
func (f *findings) report() Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	var r Report
	slices.SortFunc(f.leftOut, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	r.LeftOut = slices.Compact(f.leftOut)
	slices.Sort(f.kept)
	r.Kept = slices.Compact(f.kept)
	slices.Sort(f.open)
	r.Public = slices.Compact(f.open)
	for _, o := range f.owners {
		r.Owners = append(r.Owners, *o)
	}
	slices.SortFunc(r.Owners, func(a, b Owners) int { return strings.Compare(a.Example, b.Example) })
	r.Notes = append(r.Notes, f.notes...)
	for name, l := range f.lost {
		r.Notes = append(r.Notes, fmt.Sprintf("attribute %s is not kept: %d entries, such as %s", name, l.count, shortName(l.path)))
	}
	slices.Sort(r.Notes)
	return r
}
