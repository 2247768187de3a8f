// Package gitread reads git repositories without running git: a repository can
// make git run programs, and it may be hostile.
//
// It reads the index and, by HEAD and other references, the names of the files
// of a commit, loose or packed. Memory and time are bounded, whatever the
// repository holds. It cannot read SHA-256 repositories, reference tables and
// objects that are kept in another repository.
//
// The package knows nothing of cells or of where the files are kept.
package gitread

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Bounds on what a repository can make the program read or keep in memory.
const (
	maxIndex   = 256 << 20 // git's own index of a million files has about 100 MiB
	maxSmall   = 4096
	maxPacked  = 64 << 20 // packed-refs
	maxEntries = 3_000_000
	maxDepth   = 1000
	maxLinks   = 5 // references that refer to references
	maxRefs    = 100_000
)

// ErrUnsupported matches the errors about repositories that this package cannot
// read although git can.
var ErrUnsupported = errors.New("repositories of this kind cannot be read")

type unsupported string

func (u unsupported) Error() string { return string(u) }

func (unsupported) Is(target error) bool { return target == ErrUnsupported }

func noID(text string) error {
	return unsupported(fmt.Sprintf("%q is not an object id that can be read", text))
}

// Files is a file tree. Paths are slash separated and relative to its root; no
// link is followed.
type Files interface {
	// Open opens a regular file.
	Open(path string) (*os.File, error)
	// Names lists a directory.
	Names(path string) ([]string, error)
}

// Repo is an open repository.
type Repo struct {
	files       Files
	dir, common string // of this work tree; of all work trees

	opened   bool
	packList []*pack
	toClose  []*os.File
	packRefs map[string]string
	spent    int // bytes of objects that were made
	walks    directoryMemory
	has      map[string]bool // answers of Has
}

// Open opens the repository whose .git directory is at dir.
func Open(files Files, dir string) (*Repo, error) {
	r := &Repo{files: files, dir: dir, common: dir}
	b, err := r.read(path.Join(dir, "commondir"), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.common = path.Join(dir, strings.TrimSpace(string(b)))
	if path.IsAbs(strings.TrimSpace(string(b))) || r.common == ".." || strings.HasPrefix(r.common, "../") {
		return nil, unsupported("its objects are in another repository")
	}
	return r, nil
}

// Close closes what was opened.
func (r *Repo) Close() {
	for _, f := range r.toClose {
		_ = f.Close()
	}
	r.toClose, r.packList, r.opened = nil, nil, false
}

func (r *Repo) read(name string, limit int64) ([]byte, error) { return Read(r.files, name, limit) }

// Read reads a whole file of at most limit bytes.
func Read(files Files, name string, limit int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path.Base(name), limit)
	}
	return b, err
}

// Index returns the entries of the index; none if there is no index.
func (r *Repo) Index() ([]IndexEntry, error) {
	entries, err := ReadIndex(r.files, path.Join(r.dir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// ReadIndex reads the index that is at a path.
func ReadIndex(files Files, name string) ([]IndexEntry, error) {
	b, err := Read(files, name, maxIndex)
	if err != nil {
		return nil, err
	}
	return ParseIndex(b)
}

// Head returns the commit of HEAD; "" if there is none yet.
func (r *Repo) Head() (string, error) {
	name := "HEAD"
	for range maxLinks {
		text, err := r.ref(name)
		if err != nil {
			return "", err
		}
		to, symbolic := strings.CutPrefix(text, "ref: ")
		if !symbolic {
			return text, nil
		}
		name = strings.TrimSpace(to)
		if name == "refs/heads/.invalid" { // what git writes for programs that look for files
			return "", unsupported("it has reference tables")
		}
		if !strings.HasPrefix(name, "refs/") || path.Clean(name) != name {
			return "", fmt.Errorf("HEAD refers to %q", name)
		}
	}
	return "", errors.New("HEAD refers to itself")
}

// ref returns the object id of a reference; "" if there is no such reference.
func (r *Repo) ref(name string) (string, error) {
	where := r.common
	if name == "HEAD" {
		where = r.dir
	}
	b, err := r.read(path.Join(where, name), maxSmall)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if name == "HEAD" || !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	refs, err := r.packedRefs()
	return refs[name], err
}

func (r *Repo) packedRefs() (map[string]string, error) {
	if r.packRefs != nil {
		return r.packRefs, nil
	}
	refs := map[string]string{}
	b, err := r.read(path.Join(r.common, "packed-refs"), maxPacked)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		id, name, ok := strings.Cut(string(line), " ")
		if ok && isID(id) {
			refs[strings.TrimSpace(name)] = id
		}
	}
	r.packRefs = refs
	return refs, nil
}

// Refs returns the object ids of all references, by name.
func (r *Repo) Refs() (map[string]string, error) {
	packed, err := r.packedRefs()
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(packed))
	for name, id := range packed {
		all[name] = id
	}
	if err := r.looseRefs("refs", all, 0); err != nil {
		return nil, err
	}
	return all, nil
}

func (r *Repo) looseRefs(name string, all map[string]string, depth int) error {
	names, err := r.files.Names(path.Join(r.common, name))
	if errors.Is(err, fs.ErrNotExist) && depth == 0 {
		return nil
	}
	if err != nil { // not a directory
		text, err := r.ref(name)
		if err == nil && isID(text) {
			all[name] = text
		}
		return err
	}
	if depth > maxDepth || len(all) > maxRefs {
		return errors.New("too many references")
	}
	for _, n := range names {
		if err := r.looseRefs(path.Join(name, n), all, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func isID(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*sha1Size
}
