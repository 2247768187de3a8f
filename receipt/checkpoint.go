package receipt

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// Roots is the content identity of a file tree: Root without modification times,
// MetaRoot with them. Both are SHA-256 in lower hex.
type Roots struct {
	Root     string `json:"root"`
	MetaRoot string `json:"meta_root"`
}

// CheckpointRef names a checkpoint and what it held.
type CheckpointRef struct {
	ID       string `json:"id"`
	Root     string `json:"root"`
	MetaRoot string `json:"meta_root"`
}

// Checkpoint is a checkpoint in full: enough to record it again from the
// statement alone.
type Checkpoint struct {
	ID string `json:"id"`
	// Parent is the checkpoint that it was made from.
	Parent string `json:"parent,omitempty"`
	// Layer is the topmost layer of its state.
	Layer string `json:"layer,omitempty"`
	// Name is the name that a person gave it.
	Name string `json:"name,omitempty"`
	// Root and MetaRoot identify the workspace.
	Root     string `json:"root"`
	MetaRoot string `json:"meta_root"`
	// Areas has the roots of every area, the workspace included.
	Areas map[string]Roots `json:"areas,omitempty"`
}

// Ref is the short form.
func (c Checkpoint) Ref() CheckpointRef {
	return CheckpointRef{ID: c.ID, Root: c.Root, MetaRoot: c.MetaRoot}
}

func (c CheckpointRef) check() error {
	if err := checkID("chk", c.ID); err != nil {
		return err
	}
	return Roots{c.Root, c.MetaRoot}.check()
}

func (c Checkpoint) check() error {
	if err := c.Ref().check(); err != nil {
		return err
	}
	if c.Parent != "" {
		if err := checkID("chk", c.Parent); err != nil {
			return fmt.Errorf("parent: %w", err)
		}
	}
	if c.Layer != "" && !isToken(c.Layer) {
		return fmt.Errorf("%q is not a layer id", c.Layer)
	}
	for name, roots := range c.Areas {
		if !isArea(name) {
			return fmt.Errorf("%q is not the name of an area", name)
		}
		if err := roots.check(); err != nil {
			return fmt.Errorf("area %s: %w", name, err)
		}
	}
	return nil
}

func (r Roots) check() error {
	if !isHash(r.Root) || !isHash(r.MetaRoot) {
		return fmt.Errorf("root or meta_root is not a SHA-256")
	}
	return nil
}

func rootSubjects(c Checkpoint) []Subject {
	return []Subject{
		{Name: "root", Digest: Digest{SHA256: c.Root}},
		{Name: "meta_root", Digest: Digest{SHA256: c.MetaRoot}},
	}
}

// isArea accepts the two areas of every state, and those over directories of the
// host, which are named by what they are and the directory's path.
func isArea(name string) bool {
	kind, dir, named := strings.Cut(name, ":")
	if !named {
		return isToken(name)
	}
	return isToken(kind) && path.IsAbs(dir) && path.Clean(dir) == dir && len(dir) < 4096 &&
		!strings.ContainsFunc(dir, unicode.IsControl)
}
