package gitread

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
)

const (
	// maxCached bounds the bytes of directories that are kept, so that each is read
	// once.
	maxCached = 64 << 20
	// freeSteps is how many names the directories of a repository may have in all
	// places together; more are allowed for what it holds, repeats times each name.
	freeSteps = 100_000
	repeats   = 64
	// freeBytes is the same for the bytes of their paths.
	freeBytes = 16 << 20
	// maxPathBytes is longer than any path that a file system takes.
	maxPathBytes = 64 << 10
)

// errRepeats is about a few objects that name each other so often that they stand for
// more files than any disk holds.
var errRepeats = errors.New("its directories have the same contents again and again")

// directoryMemory is what a repository remembers of its directories.
type directoryMemory struct {
	trees  map[string][]byte      // the contents of directories, by their ids
	cached int                    // their bytes
	done   map[placedDir]struct{} // directories that were walked to their ends
	// held and heldBytes are what the directories hold that were read; steps and bytes
	// what was looked at, in all places.
	held, heldBytes, steps, bytes int
}

// placedDir is a directory at a place.
type placedDir struct{ id, prefix string }

// Paths returns the paths of all files of a commit, given by its id, without those of
// directories that an earlier call has returned at the same place. Another kind of
// object, such as a tag, has none. The work is bounded by what the repository holds.
func (r *Repo) Paths(ctx context.Context, commit string) ([]string, error) {
	if commit == "" {
		return nil, nil
	}
	if !isID(commit) {
		return nil, noID(commit)
	}
	o, err := r.object(commit)
	if err != nil || o.kind != typeCommit {
		return nil, err
	}
	line, _, _ := strings.Cut(string(o.data[:min(len(o.data), maxSmall)]), "\n")
	id, ok := strings.CutPrefix(line, "tree ")
	if !ok || !isID(id) {
		return nil, fmt.Errorf("commit %s has no directory", commit)
	}
	w := &treeWalk{r: r}
	if err := w.tree(ctx, id, "", 0); err != nil {
		return nil, err
	}
	return w.paths, nil
}

type treeWalk struct {
	r     *Repo
	paths []string
	seen  int // entries, and bytes of their paths
	bytes int
}

func (w *treeWalk) tree(ctx context.Context, id, prefix string, depth int) error {
	if depth > maxDepth {
		return errors.New("directories are nested too deeply")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	at := placedDir{id, prefix}
	if _, done := w.r.walks.done[at]; done {
		return nil
	}
	data, err := w.r.tree(id)
	if err != nil {
		return err
	}
	for b := data; len(b) > 0; {
		mode, name, entry, rest, err := nextEntry(b)
		if err != nil {
			return fmt.Errorf("object %s: %w", id, err)
		}
		full := path.Join(prefix, name)
		if err := w.step(full); err != nil {
			return err
		}
		if mode == "40000" {
			if err := w.tree(ctx, entry, full, depth+1); err != nil {
				return err
			}
		} else {
			w.paths = append(w.paths, full)
		}
		b = rest
	}
	if w.r.walks.done == nil {
		w.r.walks.done = map[placedDir]struct{}{}
	}
	w.r.walks.done[at] = struct{}{}
	return nil
}

// step counts one name, and refuses more than the repository can mean.
func (w *treeWalk) step(full string) error {
	w.seen++
	if w.bytes += len(full); w.seen > maxEntries || w.bytes > maxNameBytes || len(full) > maxPathBytes {
		return errors.New("too many files")
	}
	all := &w.r.walks
	all.steps++
	all.bytes += len(full)
	if all.steps > freeSteps+repeats*all.held || all.bytes > freeBytes+repeats*all.heldBytes {
		return errRepeats
	}
	return nil
}

// tree returns the contents of a directory. It is read once.
func (r *Repo) tree(id string) ([]byte, error) {
	if data, ok := r.walks.trees[id]; ok {
		return data, nil
	}
	o, err := r.object(id)
	if err != nil {
		return nil, err
	}
	if o.kind != typeTree {
		return nil, fmt.Errorf("object %s is not a directory", id)
	}
	if r.walks.cached+len(o.data) > maxCached {
		return o.data, nil // what it holds is not counted: it may be read again
	}
	if r.walks.trees == nil {
		r.walks.trees = map[string][]byte{}
	}
	r.walks.trees[id] = o.data
	r.walks.cached += len(o.data)
	r.walks.held += bytes.Count(o.data, []byte{0})
	r.walks.heldBytes += len(o.data)
	return o.data, nil
}

// nextEntry takes the first entry of a directory.
func nextEntry(b []byte) (mode, name, id string, rest []byte, err error) {
	head, rest, ok := bytes.Cut(b, []byte{0})
	mode, name, named := strings.Cut(string(head), " ")
	if !ok || !named || len(rest) < sha1Size || name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return "", "", "", nil, errors.New("it is damaged")
	}
	return mode, name, hex.EncodeToString(rest[:sha1Size]), rest[sha1Size:], nil
}
