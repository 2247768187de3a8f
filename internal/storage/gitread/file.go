package gitread

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// File is a file of a commit.
type File struct {
	// Link means that it is a symbolic link, and Data its target.
	Link bool
	Data []byte
}

// File returns a regular file or a symbolic link of a commit; nil if the commit has
// none of that name.
func (r *Repo) File(commit, name string) (*File, error) {
	if !isID(commit) {
		return nil, noID(commit)
	}
	o, err := r.object(commit)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(o.data[:min(len(o.data), maxSmall)]), "\n")
	id, ok := strings.CutPrefix(line, "tree ")
	if o.kind != typeCommit || !ok || !isID(id) {
		return nil, fmt.Errorf("commit %s has no directory", commit)
	}
	for {
		dir, rest, deeper := strings.Cut(name, "/")
		mode, entry, err := r.entry(id, dir)
		switch {
		case err != nil || entry == "":
			return nil, err
		case deeper && mode == "40000":
			id, name = entry, rest
		case !deeper && (mode == "100644" || mode == "100755" || mode == "120000"):
			o, err := r.object(entry)
			return &File{Link: mode == "120000", Data: o.data}, err
		default:
			return nil, nil //nolint:nilnil // as documented
		}
	}
}

// entry finds a name in a directory; its id is "" if it is not there.
func (r *Repo) entry(tree, name string) (mode, id string, err error) {
	o, err := r.object(tree)
	if err != nil {
		return "", "", err
	}
	if o.kind != typeTree {
		return "", "", fmt.Errorf("object %s is not a directory", tree)
	}
	for b := o.data; len(b) > 0; {
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, found, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < sha1Size {
			return "", "", errors.New("damaged directory")
		}
		if found == name {
			return mode, hex.EncodeToString(rest[:sha1Size]), nil
		}
		b = rest[sha1Size:]
	}
	return "", "", nil
}
