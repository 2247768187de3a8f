package gitread

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // the hash of git's objects
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// errHash is about an object that is not the one that its name says.
var errHash = errors.New("its contents are those of another object")

// IsRef reports whether a text is that of a reference: an object id, or the name of
// another reference.
func IsRef(text []byte) bool {
	line := strings.TrimRight(string(text), "\n")
	name, symbolic := strings.CutPrefix(line, "ref: ")
	if symbolic {
		return strings.HasPrefix(name, "refs/") && !strings.Contains(name, "..") &&
			!strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f })
	}
	return isHash(line)
}

// PackedRefs returns the references of a file called packed-refs. Another line is an
// error.
func PackedRefs(b []byte) (map[string]string, error) {
	refs := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		if line == "" || line[0] == '#' || line[0] == '^' && isHash(line[1:]) {
			continue
		}
		id, name, _ := strings.Cut(line, " ")
		if !isHash(id) || name == "" {
			return nil, errors.New("damaged packed references")
		}
		refs[name] = id
	}
	return refs, nil
}

// The flags of an entry that make git look away from a file or show it as less than it
// is, as in IndexEntry.
const (
	assumeValid  = 0x8000
	skipWorktree = 0x4000 << 16
	intentToAdd  = 0x2000 << 16
)

// Hides returns the name of the first flag that an entry has and another does not, of
// those that keep git from showing changes; "" if there is none.
func (e IndexEntry) Hides(was IndexEntry) string {
	more := e.Flags &^ was.Flags
	switch {
	case more&skipWorktree != 0:
		return "skip-worktree"
	case more&assumeValid != 0:
		return "assume-unchanged"
	case more&intentToAdd != 0:
		return "intent-to-add"
	}
	return ""
}

// CheckObject reads a loose object, and returns an error if it is not that of the id.
func CheckObject(ctx context.Context, r io.Reader, id string) error {
	z, err := zlib.NewReader(r)
	if err != nil {
		return err
	}
	defer z.Close()
	h := sha1.New() //nolint:gosec // as above
	head := &prefix{}
	n, err := io.Copy(io.MultiWriter(h, head), &boundedReader{ctx: ctx, r: z, left: maxWork})
	if err != nil {
		return err
	}
	kind, size, _ := strings.Cut(head.text(), " ")
	if want, err := strconv.ParseInt(size, 10, 64); err != nil || want != n-int64(len(head.text()))-1 || !slices.Contains(kinds(), kind) {
		return errors.New("damaged object")
	}
	if hex.EncodeToString(h.Sum(nil)) != id {
		return errHash
	}
	return nil
}

// kinds are the words for the types of objects, from typeCommit on.
func kinds() []string { return []string{"commit", "tree", "blob", "tag"} }

// prefix keeps what comes before the first NUL, if that is near.
type prefix struct{ b []byte }

func (p *prefix) Write(b []byte) (int, error) {
	const near = 32
	p.b = append(p.b, b[:min(len(b), max(0, near-len(p.b)))]...)
	return len(b), nil
}

func (p *prefix) text() string {
	text, _, _ := bytes.Cut(p.b, []byte{0})
	return string(text)
}

// boundedReader reads until its context ends, and no more than a number of bytes.
type boundedReader struct {
	ctx  context.Context //nolint:containedctx // lives as long as the one call
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, errors.New("it is too large to be checked")
	}
	return n, err
}

// CheckPack returns an error if a pack or its index is damaged, or if an object of the
// pack is not the one that the index says.
func CheckPack(ctx context.Context, index, data *os.File) error {
	sum, size, err := trailer(ctx, data)
	if err != nil {
		return err
	}
	c := &packCheck{ctx: ctx, pack: &pack{index: index, data: data}, end: size - sha1Size}
	if err := c.pack.readIndex(); err != nil {
		return err
	}
	var head [12]byte
	if _, err := data.ReadAt(head[:], 0); err != nil {
		return err
	}
	if version := binary.BigEndian.Uint32(head[4:]); string(head[:4]) != "PACK" || version != 2 && version != 3 || int(binary.BigEndian.Uint32(head[8:])) != c.pack.count {
		return errors.New("damaged pack")
	}
	_, indexSize, err := trailer(ctx, index)
	if err != nil {
		return err
	}
	var of [sha1Size]byte
	if _, err := index.ReadAt(of[:], indexSize-2*sha1Size); err != nil {
		return err
	}
	if !bytes.Equal(of[:], sum) {
		return errors.New("the index is that of another pack")
	}
	return c.objects()
}

// trailer checks the hash at the end of a file.
func trailer(ctx context.Context, f *os.File) (sum []byte, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size = info.Size()
	if size < 2*sha1Size {
		return nil, 0, io.ErrUnexpectedEOF
	}
	h := sha1.New() //nolint:gosec // as above
	if _, err := io.Copy(h, &boundedReader{ctx: ctx, r: io.NewSectionReader(f, 0, size-sha1Size), left: 1 << 40}); err != nil {
		return nil, 0, err
	}
	sum = make([]byte, sha1Size)
	if _, err := f.ReadAt(sum, size-sha1Size); err != nil {
		return nil, 0, err
	}
	if !bytes.Equal(h.Sum(nil), sum) {
		return nil, 0, errors.New("its checksum is wrong")
	}
	return sum, size, nil
}

// packCheck compares the objects of a pack with their ids.
type packCheck struct {
	ctx    context.Context //nolint:containedctx // lives as long as the one call
	pack   *pack
	end    int64
	spent  Repo // counts the work
	cached map[int64]object
	bytes  int
}

// listedObject is an object as an index lists it.
type listedObject struct {
	id [sha1Size]byte
	at int64
}

func (c *packCheck) objects() error {
	list := make([]listedObject, 0, min(c.pack.count, 1<<20))
	for i := range c.pack.count {
		var o listedObject
		if _, err := c.pack.index.ReadAt(o.id[:], packNames+int64(i)*sha1Size); err != nil {
			return err
		}
		at, ok, err := c.pack.find(o.id[:])
		if err != nil || !ok || at >= c.end {
			return errors.Join(err, errors.New("damaged pack index"))
		}
		o.at = at
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b listedObject) int { return cmp.Compare(a.at, b.at) })
	for _, o := range list {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.check(o); err != nil {
			return fmt.Errorf("object %x: %w", o.id, err)
		}
	}
	return nil
}

func (c *packCheck) check(o listedObject) error {
	h := sha1.New() //nolint:gosec // as above
	e, err := c.pack.head(o.at)
	if err != nil {
		return err
	}
	if !e.delta() && e.size > maxObject {
		z, err := zlib.NewReader(io.NewSectionReader(c.pack.data, e.at, 1<<62))
		if err != nil {
			return err
		}
		defer z.Close()
		begin(h, e.kind, e.size)
		if n, err := io.Copy(h, &boundedReader{ctx: c.ctx, r: z, left: e.size}); err != nil || n != e.size {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
	} else {
		made, err := c.object(o.at)
		if err != nil {
			return err
		}
		begin(h, made.kind, int64(len(made.data)))
		h.Write(made.data)
	}
	if !bytes.Equal(h.Sum(nil), o.id[:]) {
		return errHash
	}
	return nil
}

// begin writes what git hashes before the contents of an object.
func begin(h hash.Hash, kind int, size int64) {
	word := ""
	if kind >= typeCommit && kind <= len(kinds()) {
		word = kinds()[kind-typeCommit]
	}
	fmt.Fprintf(h, "%s %d\x00", word, size)
}

// object makes the object at an offset, from the nearest one that was made before.
func (c *packCheck) object(at int64) (object, error) {
	type step struct {
		at    int64
		delta []byte
	}
	var steps []step
	var o object
	held := 0
	for {
		made, known := c.cached[at]
		if known {
			o = made
			break
		}
		kind, base, data, err := c.pack.raw(at)
		if err != nil {
			return o, err
		}
		if kind != typeOfsDelta && kind != typeRefDelta {
			o = object{kind, data}
			c.keep(at, o)
			break
		}
		steps = append(steps, step{at, data})
		if held += len(data); len(steps) > maxChain || held > maxObject {
			return o, errors.New("its chain of deltas is too long")
		}
		if at, err = c.pack.base(at, kind, base); err != nil {
			return o, err
		}
	}
	for _, s := range slices.Backward(steps) {
		data, err := patch(o.data, s.delta)
		if err == nil {
			err = c.spent.spend(len(data))
		}
		if err != nil {
			return o, err
		}
		o = object{o.kind, data}
		c.keep(s.at, o)
	}
	return o, c.spent.spend(len(o.data))
}

// keep remembers an object, of which others may be deltas.
func (c *packCheck) keep(at int64, o object) {
	if c.bytes += len(o.data); c.cached == nil || c.bytes > maxCached {
		c.cached, c.bytes = map[int64]object{}, len(o.data)
	}
	c.cached[at] = o
}
