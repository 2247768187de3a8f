package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxBytes bounds the contents of a publication.
const maxBytes = 1 << 30

// Change is one path of the work.
type Change struct {
	Path string
	// Old is the file that the work began with, New the present one. nil for none.
	Old, New *File
}

// File is a file as git keeps it.
type File struct {
	// Link is a symbolic link, with its target as contents. Other files are neither
	// regular files nor links, and cannot be published.
	Executable, Link, Other bool
	Open                    func() (io.ReadCloser, error)
}

// The modes of git's entries.
const (
	modeFile    = "100644"
	modeProgram = "100755"
	modeLink    = "120000"
	modeModule  = "160000"
)

func (f *File) mode() string {
	switch {
	case f.Link:
		return modeLink
	case f.Executable:
		return modeProgram
	}
	return modeFile
}

// object is an entry of a directory in git: a mode and the id of the contents.
type object struct{ mode, id string }

// edit is one path that the commit changes.
type edit struct {
	path     string
	old, now *object // nil for none
	stored   string  // the file in the scratch directory with the new contents
	was      string  // and with the contents in the base commit
}

// baseFiles are the files of the base commit.
type baseFiles struct {
	at      map[string]object // the changed paths, and files of settings
	modules []string
	ignores []string // paths of the files called .gitignore
}

// listBase lists the base commit, as far as it matters for the changes.
func (s *scratch) listBase(ctx context.Context, commit string, changes []Change) (*baseFiles, error) {
	wanted := map[string]bool{settingsFile: true}
	for _, c := range changes {
		wanted[c.Path] = true
	}
	b := &baseFiles{at: map[string]object{}}
	err := s.git.entries(ctx, s.in("ls-tree", "-r", "-z", "--full-tree", commit), func(line string) error {
		head, name, _ := strings.Cut(line, "\t")
		fields := strings.Fields(head)
		if len(fields) != 3 {
			return errors.New("git ls-tree: unexpected output")
		}
		if fields[0] == modeModule {
			b.modules = append(b.modules, name)
		}
		if path.Base(name) == ".gitignore" && fields[0] != modeLink {
			b.ignores = append(b.ignores, name)
			wanted[name] = true
		}
		if wanted[name] {
			b.at[name] = object{fields[0], fields[2]}
		}
		return nil
	})
	return b, err
}

// entries runs git and calls fn with each part of its output that ends in NUL.
func (r *runner) entries(ctx context.Context, c call, fn func(string) error) error {
	split := &splitter{fn: fn}
	if err := r.stream(ctx, c, split); err != nil {
		return errors.Join(split.err, err)
	}
	return split.err
}

// splitter calls a function with each part of a stream that ends in NUL.
type splitter struct {
	fn   func(string) error
	rest []byte
	err  error
}

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for s.err == nil {
		part, more, ok := bytes.Cut(p, []byte{0})
		if s.rest = append(s.rest, part...); len(s.rest) > maxConfig {
			s.err = errors.New("git printed too much")
		}
		if !ok || s.err != nil {
			break
		}
		s.err = s.fn(string(s.rest))
		s.rest, p = s.rest[:0], more
	}
	return n, s.err
}

// dotGit reports whether a name is that of a repository's directory. git refuses the
// other names under which some file systems would find it.
func dotGit(name string) bool { return strings.EqualFold(name, ".git") }

// refusedPath returns why a path can be in no commit, or "".
func (b *baseFiles) refusedPath(c Change) string {
	if fsx.CheckPath(c.Path) != nil || c.Path == "." {
		return "is not a path of a file"
	}
	for part := range strings.SplitSeq(c.Path, "/") {
		if dotGit(part) {
			return "is in a git repository inside of the work"
		}
	}
	for _, m := range b.modules {
		if c.Path == m || strings.HasPrefix(c.Path, m+"/") || strings.HasPrefix(m, c.Path+"/") {
			return "is in the submodule " + quote.Path(m)
		}
	}
	if c.New != nil && c.New.Other {
		return "is neither a file nor a link"
	}
	return ""
}

// store writes contents to the scratch repository and returns their ids, in order.
// No filter is run and no line end is converted.
func (s *scratch) store(ctx context.Context, list []*File, names []string) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	left := int64(maxBytes)
	for i, f := range list {
		n, err := s.keep(f, names[i], left)
		if err != nil {
			return nil, err
		}
		left -= n
	}
	c := s.in("hash-object", "-w", "--no-filters", "--stdin-paths")
	c.stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	out, err := s.git.run(ctx, c)
	ids := strings.Fields(string(out))
	if err == nil && len(ids) != len(list) {
		err = fmt.Errorf("git hash-object: %d ids for %d files", len(ids), len(list))
	}
	return ids, err
}

// keep copies the contents of a file to the scratch directory.
func (s *scratch) keep(f *File, name string, left int64) (int64, error) {
	from, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := s.dir.Create(name, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, io.LimitReader(from, left+1))
	if err == nil && n > left {
		err = api.Refusef(api.CodeTooLarge, "", "the work has more than %d bytes", int64(maxBytes))
	}
	return n, errors.Join(err, to.Close())
}

// merge compares three sides: what the work began with, the work, and the base
// commit. It returns the paths that the commit changes, and refuses conflicts.
func (s *scratch) merge(ctx context.Context, changes []Change, base *baseFiles) (edits []edit, ignored []string, err error) {
	var refused []string
	var added []string
	for _, c := range changes {
		if why := base.refusedPath(c); why != "" {
			refused = append(refused, quote.Path(c.Path)+": "+why)
		}
		if _, there := base.at[c.Path]; !there && c.New != nil {
			added = append(added, c.Path)
		}
	}
	if len(refused) > 0 {
		return nil, nil, noCommit(refused)
	}
	if err := s.dir.Mkdir("blobs", 0o700); err != nil {
		return nil, nil, err
	}
	skip, err := s.ignoredPaths(ctx, changes, base, added)
	if err != nil {
		return nil, nil, err
	}
	var work []Change
	for _, c := range changes {
		if skip[c.Path] {
			ignored = append(ignored, c.Path)
		} else {
			work = append(work, c)
		}
	}
	sides, err := s.sides(ctx, work)
	if err != nil {
		return nil, nil, err
	}
	var conflicts []string
	for _, side := range sides {
		e, why := side.merge(base)
		switch {
		case why != "":
			conflicts = append(conflicts, quote.Path(side.path)+": "+why)
		case e != nil:
			edits = append(edits, *e)
		}
	}
	if len(conflicts) > 0 {
		return nil, nil, &api.Error{
			Kind: api.Refused, Code: api.CodeConflict, Message: api.Counted(len(conflicts), "conflict") + " with the base, nothing was published",
			Hint: "refresh the cell from its source and accept the result, or give another base with --base", Details: conflicts,
		}
	}
	return edits, ignored, nil
}

// noCommit refuses paths that cannot be in a commit, each with its reason.
func noCommit(refused []string) error {
	return &api.Error{
		Kind: api.Refused, Code: api.CodeGate, Message: api.Counted(len(refused), "path") + " cannot be in a commit, nothing was published",
		Hint: "accept a part of the work without them", Details: refused,
	}
}

// sides stores the contents of all changes, and returns both sides of each.
func (s *scratch) sides(ctx context.Context, changes []Change) ([]edit, error) {
	out := make([]edit, len(changes))
	var list []*File
	var names []string
	var to []*object
	for i, c := range changes {
		e := &out[i]
		e.path = c.Path
		name := "blobs/" + strconv.Itoa(i)
		if c.Old != nil && !c.Old.Other {
			e.old, e.was = &object{mode: c.Old.mode()}, name+"-old"
			list, names, to = append(list, c.Old), append(names, e.was), append(to, e.old)
		}
		if c.New != nil {
			e.now, e.stored = &object{mode: c.New.mode()}, name+"-new"
			list, names, to = append(list, c.New), append(names, e.stored), append(to, e.now)
		}
	}
	ids, err := s.store(ctx, list, names)
	for i, id := range ids {
		to[i].id = id
	}
	return out, err
}

// merge merges one path with the base. It returns no edit if the base has the change
// already, and why if it is a conflict.
func (e edit) merge(base *baseFiles) (_ *edit, why string) {
	var ours *object
	if o, ok := base.at[e.path]; ok {
		ours = &o
	}
	switch {
	case same(e.now, ours):
		return nil, ""
	case same(e.old, ours):
		return &e, ""
	case ours == nil:
		return nil, "the cell began with it, and the base does not have it"
	}
	return nil, "the base has other contents than the cell began with"
}

func same(a, b *object) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// ignoredPaths returns the added paths that the .gitignore files of the result leave out.
func (s *scratch) ignoredPaths(ctx context.Context, changes []Change, base *baseFiles, added []string) (map[string]bool, error) {
	skip := map[string]bool{}
	if len(added) == 0 {
		return skip, nil
	}
	if err := s.writeIgnores(ctx, changes, base); err != nil {
		return nil, err
	}
	c := s.in("check-ignore", "--no-index", "-z", "--stdin")
	c.dir, c.env = s.path("tree"), []string{"GIT_WORK_TREE=" + s.path("tree")}
	c.stdin = strings.NewReader(strings.Join(added, "\x00") + "\x00")
	err := s.git.entries(ctx, c, func(p string) error { skip[p] = true; return nil })
	if exitCode(err) == 1 {
		err = nil // none is
	}
	return skip, err
}

// writeIgnores writes the .gitignore files of the result to a directory, as plain
// files.
func (s *scratch) writeIgnores(ctx context.Context, changes []Change, base *baseFiles) error {
	if err := s.dir.Mkdir("tree", 0o700); err != nil {
		return err
	}
	texts := map[string][]byte{}
	for _, name := range base.ignores {
		text, err := s.git.run(ctx, s.in("cat-file", "blob", base.at[name].id))
		if err != nil {
			return err
		}
		texts[name] = text
	}
	for _, c := range changes {
		if path.Base(c.Path) != ".gitignore" {
			continue
		}
		delete(texts, c.Path)
		if c.New == nil || c.New.Link || c.New.Other {
			continue
		}
		text, err := readAll(c.New, maxConfig)
		if err != nil {
			return fmt.Errorf("%s: %w", quote.Path(c.Path), err)
		}
		texts[c.Path] = text
	}
	for name, text := range texts {
		at := path.Join("tree", name)
		if err := s.dir.MkdirAll(path.Dir(at), 0o700); err != nil {
			return err
		}
		if err := fsx.WriteFile(s.dir, at, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func readAll(f *File, limit int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return text, err
}
