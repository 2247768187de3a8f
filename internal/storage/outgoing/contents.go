package outgoing

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Bounds of what is read of one file.
const (
	maxRef    = 4096
	maxPacked = 64 << 20
	maxIndex  = 256 << 20
)

// check returns why a file of a repository is held back although its name passes; "" if
// its contents are those that its name says.
func (g *Gate) check(ctx context.Context, e Entry, file secretfiles.GitFile) (why string, err error) {
	if !e.File {
		return "in a git repository, and no regular file", nil
	}
	if g.after == nil || g.after.Open == nil {
		return "", nil
	}
	switch file {
	case secretfiles.GitRef:
		return g.checkRef(e.Path)
	case secretfiles.GitPackedRefs:
		return g.checkPackedRefs(e.Path)
	case secretfiles.GitIndex:
		return g.checkIndex(e.Path)
	case secretfiles.GitObject:
		return g.checkObject(ctx, e.Path)
	case secretfiles.GitPack, secretfiles.GitPackIndex:
		return g.checkPack(ctx, strings.TrimSuffix(e.Path, path.Ext(e.Path)))
	case secretfiles.GitOther, secretfiles.GitBehind, secretfiles.GitDir, secretfiles.GitLog:
	}
	return "", nil
}

// read reads a file of a view. What the view does not have is empty.
func read(v *View, p string, limit int64) ([]byte, error) {
	if v == nil || v.Open == nil {
		return nil, nil
	}
	f, err := v.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

func (g *Gate) checkRef(p string) (string, error) {
	text, err := read(g.after, p, maxRef)
	if err == nil && !gitread.IsRef(text) {
		return "reference of git that names no object", nil
	}
	return "", err
}

// checkPackedRefs holds back references that do not pass by their names, unless they are
// there already.
func (g *Gate) checkPackedRefs(p string) (string, error) {
	text, err := read(g.after, p, maxPacked)
	if err != nil {
		return "", err
	}
	refs, err := gitread.PackedRefs(text)
	if err != nil || len(text) > maxPacked {
		return "references of git that cannot be read", nil
	}
	if text, err = read(g.before, p, maxPacked); err != nil {
		return "", err
	}
	was, err := gitread.PackedRefs(text)
	if err != nil {
		was = nil
	}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if !secretfiles.PassingRef(name) && was[name] != refs[name] {
			return "has the reference " + quote.Path(name) + ", which can change what git shows", nil
		}
	}
	return "", nil
}

// checkIndex holds back an index that has flags which hide changes, unless the directory's
// has them.
func (g *Gate) checkIndex(p string) (string, error) {
	text, err := read(g.after, p, maxIndex)
	if err != nil {
		return "", err
	}
	now, err := gitread.ParseIndex(text)
	if err != nil || len(text) > maxIndex {
		return "index of git that cannot be read: " + quote.Line(cause(err)), nil
	}
	if text, err = read(g.before, p, maxIndex); err != nil {
		return "", err
	}
	was := map[string]gitread.IndexEntry{}
	if old, err := gitread.ParseIndex(text); err == nil {
		for _, e := range old {
			was[e.Name] = e
		}
	}
	for _, e := range now {
		if flag := e.Hides(was[e.Name]); flag != "" {
			return "hides changes of " + quote.Path(e.Name) + " from git (" + flag + ")", nil
		}
	}
	return "", nil
}

func cause(err error) string {
	if err == nil {
		return "it is too large"
	}
	return err.Error()
}

func (g *Gate) checkObject(ctx context.Context, p string) (string, error) {
	f, err := g.after.Open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	err = gitread.CheckObject(ctx, f, path.Base(path.Dir(p))+path.Base(p))
	return objection("object of git", err), ctx.Err()
}

// checkPack checks a pack with its index. One without the other has no effect.
func (g *Gate) checkPack(ctx context.Context, base string) (why string, err error) {
	if why, known := g.packs[base]; known {
		return why, nil
	}
	defer func() {
		if err == nil {
			g.packs[base] = why
		}
	}()
	var files []*os.File
	for _, ext := range []string{".idx", ".pack"} {
		f, err := g.after.Open(base + ext)
		if errors.Is(err, fs.ErrNotExist) {
			return "pack of git without its index, or index without its pack", nil
		}
		if err != nil {
			return "", err
		}
		defer f.Close()
		files = append(files, f)
	}
	return objection("pack of git", gitread.CheckPack(ctx, files[0], files[1])), ctx.Err()
}

// objection returns why something is held back that was read with an error.
func objection(what string, err error) string {
	if err == nil {
		return ""
	}
	return what + " that is not what its name says: " + quote.Line(err.Error())
}
