package gitread

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const (
	sha1Size = 20
	// maxObject bounds a commit or a directory: one with a million names has
	// about 40 MiB.
	maxObject = 64 << 20
	// maxChain bounds how many objects a packed one is made from. Git's own
	// bound is 4095.
	maxChain = 4096
	maxPacks = 10_000
	// maxWork bounds the bytes of all objects that are read from one
	// repository.
	maxWork = 4 << 30
)

// The types of objects in a pack.
const (
	typeCommit   = 1
	typeTree     = 2
	typeOfsDelta = 6
	typeRefDelta = 7
)

type object struct {
	kind int
	data []byte
}

// errNoObject means that the repository does not have an object: it may be in
// another one.
const errNoObject = unsupported("the object is not in the repository")

// object reads a commit or a directory by its id, loose or packed.
func (r *Repo) object(id string) (object, error) {
	o, err := r.readLoose(id)
	if errors.Is(err, fs.ErrNotExist) {
		o, err = r.readPacked(id)
	}
	if err == nil {
		err = r.spend(len(o.data))
	}
	if err != nil {
		return o, fmt.Errorf("object %s: %w", id, err)
	}
	return o, nil
}

// Has reports whether the repository has a commit or another object.
func (r *Repo) Has(id string) bool {
	if !isID(id) {
		return false
	}
	has, known := r.has[id]
	if !known {
		_, err := r.object(id)
		if has = err == nil; r.has == nil {
			r.has = map[string]bool{}
		}
		r.has[id] = has
	}
	return has
}

func (r *Repo) spend(n int) error {
	if r.spent += n; r.spent > maxWork {
		return errors.New("reading the repository takes too much work")
	}
	return nil
}

func (r *Repo) readLoose(id string) (object, error) {
	f, err := r.files.Open(path.Join(r.common, "objects", id[:2], id[2:]))
	if err != nil {
		return object{}, err
	}
	defer f.Close()
	b, err := inflate(f, maxObject)
	if err != nil {
		return object{}, err
	}
	head, data, ok := bytes.Cut(b, []byte{0})
	kind, size, _ := strings.Cut(string(head), " ")
	if n, err := strconv.Atoi(size); !ok || err != nil || n != len(data) {
		return object{}, errors.New("damaged object")
	}
	return object{kind: map[string]int{"commit": typeCommit, "tree": typeTree}[kind], data: data}, nil
}

// inflate reads compressed bytes, at most limit of them.
func inflate(from io.Reader, limit int64) ([]byte, error) {
	z, err := zlib.NewReader(from)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	b, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return b, err
}

// pack is one pack with its index.
type pack struct {
	index, data *os.File
	count       int
	fanout      [256]uint32
}

// packs opens all packs, once.
func (r *Repo) packs() ([]*pack, error) {
	if r.opened {
		return r.packList, nil
	}
	dir := path.Join(r.common, "objects", "pack")
	names, err := r.files.Names(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || len(names) > 2*maxPacks {
		return nil, errors.Join(err, fmt.Errorf("%s cannot be read", dir))
	}
	r.opened = true
	for _, n := range names {
		base, is := strings.CutSuffix(n, ".idx")
		if !is || !strings.HasPrefix(n, "pack-") {
			continue
		}
		p, err := r.openPack(path.Join(dir, base))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		r.packList = append(r.packList, p)
	}
	return r.packList, nil
}

func (r *Repo) openPack(base string) (*pack, error) {
	index, err := r.files.Open(base + ".idx")
	if err != nil {
		return nil, err
	}
	r.toClose = append(r.toClose, index)
	data, err := r.files.Open(base + ".pack")
	if err != nil {
		return nil, err
	}
	r.toClose = append(r.toClose, data)
	p := &pack{index: index, data: data}
	return p, p.readIndex()
}

// packNames is where the ids begin in an index.
const packNames = 8 + 256*4

// readIndex reads the head of an index.
func (p *pack) readIndex() error {
	var head [packNames]byte
	if _, err := p.index.ReadAt(head[:], 0); err != nil {
		return err
	}
	if string(head[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return errors.New("only version 2 of pack indexes is supported")
	}
	for i := range p.fanout {
		p.fanout[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && p.fanout[i] < p.fanout[i-1] {
			return errors.New("damaged pack index")
		}
	}
	p.count = int(p.fanout[255])
	return nil
}

// find returns the offset of an object.
func (p *pack) find(id []byte) (offset int64, ok bool, err error) {
	low, high := 0, int(p.fanout[id[0]])
	if id[0] > 0 {
		low = int(p.fanout[id[0]-1])
	}
	var buf [sha1Size]byte
	at := low + sort.Search(high-low, func(i int) bool {
		if err == nil {
			_, err = p.index.ReadAt(buf[:], packNames+int64(low+i)*sha1Size)
		}
		return bytes.Compare(buf[:], id) >= 0
	})
	if err != nil || at == high {
		return 0, false, err
	}
	if _, err := p.index.ReadAt(buf[:], packNames+int64(at)*sha1Size); err != nil || !bytes.Equal(buf[:], id) {
		return 0, false, err
	}
	offsets := packNames + int64(p.count)*(sha1Size+4)
	if _, err := p.index.ReadAt(buf[:4], offsets+4*int64(at)); err != nil {
		return 0, false, err
	}
	n := binary.BigEndian.Uint32(buf[:])
	if n&(1<<31) == 0 {
		return int64(n), true, nil
	}
	large := offsets + 4*int64(p.count) + 8*int64(n&^(1<<31))
	if _, err := p.index.ReadAt(buf[:8], large); err != nil {
		return 0, false, err
	}
	return int64(binary.BigEndian.Uint64(buf[:]) &^ (1 << 63)), true, nil
}

func (r *Repo) readPacked(id string) (object, error) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != sha1Size {
		return object{}, errNoObject
	}
	packs, err := r.packs()
	if err != nil {
		return object{}, err
	}
	for _, p := range packs {
		at, ok, err := p.find(raw)
		if err != nil {
			return object{}, err
		}
		if ok {
			return r.unpack(p, at)
		}
	}
	return object{}, errNoObject
}

// unpack reads an object of a pack, with all objects that it is a delta of.
func (r *Repo) unpack(p *pack, at int64) (object, error) {
	var deltas [][]byte
	total := 0
	for range maxChain {
		kind, base, data, err := p.raw(at)
		if err != nil {
			return object{}, err
		}
		if kind != typeOfsDelta && kind != typeRefDelta {
			return r.applyDeltas(object{kind, data}, deltas)
		}
		if total += len(data); total > maxObject {
			return object{}, errors.New("its deltas are too large")
		}
		deltas = append(deltas, data)
		if at, err = p.base(at, kind, base); err != nil {
			return object{}, err
		}
	}
	return object{}, errors.New("its chain of deltas is too long")
}

// base returns where the object is that a delta changes.
func (p *pack) base(at int64, kind int, base origin) (int64, error) {
	if kind == typeOfsDelta {
		if at -= int64(base.offset); base.offset <= 0 || at <= 0 {
			return 0, errors.New("its delta refers to a later object")
		}
		return at, nil
	}
	next, ok, err := p.find(base.id)
	if err != nil || !ok {
		return 0, errors.Join(err, errNoObject)
	}
	return next, nil
}

// origin is the object that a delta changes.
type origin struct {
	offset int
	id     []byte
}

// packEntry is the head of an entry of a pack.
type packEntry struct {
	kind int
	base origin
	size int64 // of what is compressed
	at   int64 // where that begins
}

func (e packEntry) delta() bool { return e.kind == typeOfsDelta || e.kind == typeRefDelta }

// head reads the head of an entry of a pack.
func (p *pack) head(at int64) (e packEntry, err error) {
	const most = 64
	head := make([]byte, most)
	n, err := p.data.ReadAt(head, at)
	if n < sha1Size || err != nil && !errors.Is(err, io.EOF) {
		return e, errors.Join(err, io.ErrUnexpectedEOF)
	}
	head = head[:n]
	e.kind = int(head[0]>>4) & 7
	shift, used := 4, 1
	e.size = int64(head[0] & 15)
	for more := head[0]&0x80 != 0; more; used++ {
		if used > 8 {
			return e, errors.New("it is damaged")
		}
		e.size |= int64(head[used]&0x7f) << shift
		shift += 7
		more = head[used]&0x80 != 0
	}
	switch e.kind {
	case typeOfsDelta:
		offset, n := varint(head[used:])
		if n == 0 {
			return e, errors.New("it is damaged")
		}
		e.base.offset = offset
		used += n
	case typeRefDelta:
		if len(head) < used+sha1Size {
			return e, io.ErrUnexpectedEOF
		}
		e.base.id = head[used : used+sha1Size]
		used += sha1Size
	}
	e.at = at + int64(used)
	return e, nil
}

// raw reads one entry of a pack.
func (p *pack) raw(at int64) (kind int, base origin, data []byte, err error) {
	e, err := p.head(at)
	if err != nil {
		return 0, base, nil, err
	}
	if e.size > maxObject {
		return 0, base, nil, fmt.Errorf("it has more than %d bytes", maxObject)
	}
	data, err = inflate(io.NewSectionReader(p.data, e.at, 1<<62), e.size)
	if err == nil && int64(len(data)) != e.size {
		err = io.ErrUnexpectedEOF
	}
	return e.kind, e.base, data, err
}

// applyDeltas applies deltas to an object, the last one first.
func (r *Repo) applyDeltas(o object, deltas [][]byte) (object, error) {
	for i := len(deltas) - 1; i >= 0; i-- {
		var err error
		if o.data, err = patch(o.data, deltas[i]); err == nil {
			err = r.spend(len(o.data))
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// patch returns the object that a delta describes.
func patch(base, delta []byte) ([]byte, error) {
	bad := errors.New("damaged delta")
	from, n := length(delta)
	delta = delta[n:]
	size, m := length(delta)
	delta = delta[m:]
	if n == 0 || m == 0 || from != len(base) || size > maxObject {
		return nil, bad
	}
	out := make([]byte, 0, min(size, 1<<20))
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 { // the next bytes as they are
			if op == 0 || int(op) > len(delta) {
				return nil, bad
			}
			out, delta = append(out, delta[:op]...), delta[op:]
		} else {
			var offset, count int
			for i := range 7 {
				if op&(1<<i) == 0 {
					continue
				}
				if len(delta) == 0 {
					return nil, bad
				}
				if i < 4 {
					offset |= int(delta[0]) << (8 * i)
				} else {
					count |= int(delta[0]) << (8 * (i - 4))
				}
				delta = delta[1:]
			}
			if count == 0 {
				count = 0x10000
			}
			if offset+count > len(base) {
				return nil, bad
			}
			out = append(out, base[offset:offset+count]...)
		}
		if len(out) > size {
			return nil, bad
		}
	}
	if len(out) != size {
		return nil, bad
	}
	return out, nil
}

// length reads a number of a delta's head; n is 0 if there is none.
func length(b []byte) (v, n int) {
	for n < len(b) && n < 8 {
		c := b[n]
		v |= int(c&0x7f) << (7 * n)
		n++
		if c&0x80 == 0 {
			return v, n
		}
	}
	return 0, 0
}

// InObjects reports whether a path has the name of what is in an object store: objects,
// packs and the directories that they are in. dir is the directory that the store is in,
// which may be that of a repository.
func InObjects(name string) (dir string, is bool) {
	dir, below, found := cutLast("./"+name, "/objects/")
	kind, _, _ := strings.Cut(below, "/")
	loose := len(kind) == 2 && strings.Trim(kind, "0123456789abcdef") == ""
	if !found || !loose && kind != "pack" {
		return "", false
	}
	return path.Clean(dir), true
}

// ObjectStore returns the object store of a repository called .git, or of a submodule in
// it, if a path has the name of an object, of a pack or its index, or, for a directory, of
// one that they are in. Of other paths it returns "". It is for what is shown: a repository
// may have any name.
func ObjectStore(name string, dir bool) string {
	repo, is := InObjects(name)
	if !is || path.Base(repo) != ".git" && !strings.Contains(repo, ".git/modules/") {
		return ""
	}
	store := repo + "/objects"
	in, file, inside := strings.Cut(strings.TrimPrefix(name, store+"/"), "/")
	known := dir && !inside
	if !dir && in == "pack" {
		known = isPack(file)
	} else if !dir {
		known = isHash(in + file)
	}
	if !known {
		return ""
	}
	return store
}

// isPack reports whether a file of the directory of packs has a name that git gives.
func isPack(file string) bool {
	hash, ext, _ := strings.Cut(strings.TrimPrefix(file, "pack-"), ".")
	return strings.HasPrefix(file, "pack-") && isHash(hash) && slices.Contains([]string{"pack", "idx", "rev", "bitmap", "mtimes"}, ext)
}

// isHash reports whether a text is a SHA-1 or a SHA-256 as git writes it.
func isHash(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
