package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
	fileCaps   = "security.capability"
)

// attrRules decide which extended attributes are kept, refused or dropped.
type attrRules struct {
	// own is the prefix of the attributes that the kernel keeps in this home's
	// upper directories; "" for trees that are not overlay layers.
	own string
	// caps means that file capabilities can be kept: only root may set them.
	caps bool
}

// plainAttrs returns the rules for trees that are not overlay layers.
func (s *Store) plainAttrs() attrRules { return attrRules{caps: s.opt.Root} }

// upperAttrs returns the rules for overlay layers.
func (s *Store) upperAttrs() attrRules {
	return attrRules{own: s.attrKind() + ".overlay.", caps: s.opt.Root}
}

// kernelAttrs lists the attributes that overlay writes with our mount options.
// Others (redirect, metacopy) would mean that a layer is not plain.
var kernelAttrs = []string{"opaque", "impure", "origin", "nlink", "uuid", "upper"}

// classify returns the attributes that belong to a state, whether a directory is
// opaque, and the names of attributes that are refused or dropped.
func (r attrRules) classify(all []fsx.Xattr) (kept []fsx.Xattr, opaque bool, refused, lost []string) {
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

// refusals collects what several areas cannot keep, so that one error lists all of
// it.
type refusals struct{ problems []string }

// add collects an *UnsealableError and returns any other error.
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

// findings collects the observations of a walk. Several goroutines use it.
type findings struct {
	mu       sync.Mutex
	problems []string
	refused  []RefusedEntry
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

// refuse records something that cannot be kept.
func (f *findings) refuse(r RefusedEntry, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = append(f.problems, shortName(r.Path)+": "+what)
	f.refused = append(f.refused, r)
}

// attrs records attributes that classify did not keep.
func (f *findings) attrs(path string, refused, lost []string) {
	for _, name := range refused {
		f.refuse(RefusedEntry{Path: path, Attr: name}, "attribute "+name)
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

// public records a file that is kept because it holds nothing secret.
func (f *findings) public(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, path)
}

// note adds a sentence to the report.
func (f *findings) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, text)
}

// owner records an owner that the cell cannot show.
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

// err returns an *UnsealableError with everything that was refused, or nil.
func (f *findings) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.problems) == 0 {
		return nil
	}
	slices.Sort(f.problems)
	return &UnsealableError{Problems: slices.Compact(f.problems), Refused: slices.Clone(f.refused)}
}

// report returns everything that was found, sorted. Directories that were read
// twice may have been recorded twice.
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
