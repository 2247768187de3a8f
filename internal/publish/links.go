package publish

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// linkTargets knows what the links of a commit or tree lead to.
type linkTargets struct {
	control *secretfiles.LinkFinder // control files
	pushed  *secretfiles.LinkFinder // files that run when they are pushed
	names   names
}

// names are the names in the directories of a commit or tree.
type names map[string]map[string]struct{}

// add adds a path, and the directories above it.
func (n names) add(p string) {
	for p != "." {
		dir, name := path.Dir(p), path.Base(p)
		if _, known := n[dir][name]; known {
			return
		}
		if n[dir] == nil {
			n[dir] = map[string]struct{}{}
		}
		n[dir][name] = struct{}{}
		p = dir
	}
}

func (n names) view(dir string) ([]string, error) { return slices.Collect(maps.Keys(n[dir])), nil }

// namesOf returns the names of the files that a commit adds or changes.
func namesOf(edits []edit) names {
	n := names{}
	for _, e := range edits {
		if e.now != nil {
			n.add(e.path)
		}
	}
	return n
}

// links follows the links of a commit or tree.
func (s *scratch) links(ctx context.Context, tree string) (linkTargets, error) {
	blobs, all := map[string]string{}, names{}
	err := s.git.entries(ctx, s.in("ls-tree", "-r", "-z", "--full-tree", tree), func(line string) error {
		head, name, _ := strings.Cut(line, "\t")
		all.add(name)
		if fields := strings.Fields(head); len(fields) == 3 && fields[0] == modeLink {
			blobs[name] = fields[2]
		}
		return nil
	})
	if err != nil {
		return linkTargets{}, err
	}
	targets, err := s.targets(ctx, slices.Collect(maps.Values(blobs)))
	if err != nil {
		return linkTargets{}, err
	}
	read := func(path string) (string, error) { return targets[blobs[path]], nil }
	paths := slices.Sorted(maps.Keys(blobs))
	control, err := secretfiles.NewLinked("", paths, read)
	if err != nil {
		return linkTargets{}, err
	}
	pushed, err := secretfiles.NewPushedLinks(paths, read)
	return linkTargets{control, pushed, all}, err
}

// maxTarget is longer than the target of any link that the kernel makes.
const maxTarget = 4096

// targets reads the targets of links, by the ids of their blobs. Longer ones than the
// kernel makes lead nowhere.
func (s *scratch) targets(ctx context.Context, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return map[string]string{}, nil
	}
	c := s.in("cat-file", "--batch")
	c.stdin = strings.NewReader(strings.Join(ids, "\n") + "\n")
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := s.git.stream(ctx, c, to)
		_ = to.CloseWithError(err)
		ended <- err
	}()
	targets, err := readTargets(bufio.NewReader(from))
	_ = from.Close()
	if failed := <-ended; err == nil {
		err = failed
	}
	return targets, err
}

// readTargets reads what git cat-file --batch prints: for each blob a line with its id,
// kind and size, its bytes, and a newline.
func readTargets(r *bufio.Reader) (map[string]string, error) {
	targets := map[string]string{}
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return targets, nil
		}
		if err != nil {
			return nil, err
		}
		var id, kind string
		var size int64
		if _, err := fmt.Sscanf(line, "%s %s %d\n", &id, &kind, &size); err != nil || kind != "blob" || size < 0 {
			return nil, errors.New("git cat-file: unexpected output")
		}
		var target strings.Builder
		if size > maxTarget {
			_, err = io.CopyN(io.Discard, r, size)
		} else {
			_, err = io.CopyN(&target, r, size)
		}
		if err == nil {
			_, err = r.Discard(1)
		}
		if err != nil {
			return nil, err
		}
		targets[id] = target.String()
	}
}
