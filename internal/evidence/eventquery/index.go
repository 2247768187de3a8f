package eventquery

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

const (
	// partSize is the least size of a part of a journal, but for the last one.
	partSize = 16 << 10
	// maxParts bounds the parts that an index remembers: 512 MiB of journals.
	maxParts = 32 << 10
)

// Index remembers what the parts of journals hold, so that a query reads the parts
// that may have an answer, and what was written since the query before. The zero value
// is ready, and is safe for concurrent use.
//
// It caches what was read: a journal that is changed afterwards is found
// by the verification of receipts, not by a query.
type Index struct {
	mu       sync.Mutex
	journals map[string]*indexed
	parts    int // of all journals
}

// indexed is the part of a journal that was read.
type indexed struct {
	file  os.FileInfo
	parts []part
	end   int64
	whole bool // nothing will follow
}

// part is a piece of a journal: a number of whole lines.
type part struct {
	size   int64
	newest time.Time
	kinds  []event.Kind
}

// may reports whether a part may have a record that a filter selects.
func (p part) may(f event.Filter) bool {
	return !p.newest.Before(f.Since) && slices.ContainsFunc(p.kinds, f.MatchKind)
}

// add adds a record to the last part, or begins another.
func (d *indexed) add(rec event.Record) {
	d.join(part{size: int64(len(rec.Raw)) + 1, newest: rec.Time, kinds: []event.Kind{{Class: rec.Class, Action: rec.Action}}})
}

// join adds a part to the last one, unless that is large enough.
func (d *indexed) join(p part) {
	d.end += p.size
	if n := len(d.parts); n == 0 || d.parts[n-1].size >= partSize {
		d.parts = append(d.parts, p)
		return
	}
	last := &d.parts[len(d.parts)-1]
	last.size += p.size
	if p.newest.After(last.newest) {
		last.newest = p.newest
	}
	for _, k := range p.kinds {
		if !slices.Contains(last.kinds, k) {
			last.kinds = append(last.kinds, k)
		}
	}
}

// span is a range of bytes in a journal.
type span struct{ from, to int64 }

// knownJournal is the part of an index about one journal, for one query.
type knownJournal struct {
	file  os.FileInfo
	spans []span // that may have an answer
	end   int64
	whole bool
}

// of reports whether this is known of a file: a journal only grows.
func (k knownJournal) of(info os.FileInfo) bool {
	return k.file == nil || os.SameFile(k.file, info) && info.Size() >= k.end
}

func (x *Index) lookup(journal string, f event.Filter) (k knownJournal) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.journals[journal]
	if d == nil {
		return k
	}
	k = knownJournal{file: d.file, end: d.end, whole: d.whole}
	at := int64(0)
	for _, p := range d.parts {
		if p.may(f) {
			if n := len(k.spans); n > 0 && k.spans[n-1].to == at {
				k.spans[n-1].to += p.size
			} else {
				k.spans = append(k.spans, span{at, at + p.size})
			}
		}
		at += p.size
	}
	return k
}

// extend remembers the parts of a journal that follow what was known of it.
func (x *Index) extend(journal string, k knownJournal, more indexed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.journals[journal]
	if d == nil {
		d = &indexed{}
	}
	if d.end != k.end {
		return // another query was faster
	}
	x.parts -= len(d.parts)
	for _, p := range more.parts {
		d.join(p)
	}
	d.file, d.whole = more.file, more.whole
	x.parts += len(d.parts)
	if x.journals == nil || x.parts > maxParts {
		x.journals, x.parts = map[string]*indexed{}, len(d.parts)
	}
	x.journals[journal] = d
}

func (x *Index) remove(journal string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if d := x.journals[journal]; d != nil {
		x.parts -= len(d.parts)
		delete(x.journals, journal)
	}
}

// Journal reads the events in the journal of a run that match a filter, without its
// limit. A run without a journal has none.
func (x *Index) Journal(journals Journals, r Run, f event.Filter) iter.Seq2[event.Record, error] {
	f.Limit = 0
	return func(yield func(event.Record, error) bool) {
		err := x.read(journals, r, f, func(rec event.Record) error {
			if !yield(rec, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(event.Record{}, fmt.Errorf("%s: %w", r.ID, err))
		}
	}
}

func (x *Index) read(journals Journals, r Run, f event.Filter, fn func(event.Record) error) error {
	if !r.may(f) {
		return nil
	}
	k := x.lookup(r.ID, f)
	if k.whole && len(k.spans) == 0 {
		return nil
	}
	file, err := journals.OpenEvents(r.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !k.of(info) {
		x.remove(r.ID)
		k = knownJournal{}
	}
	for _, s := range k.spans {
		if err := event.Read(io.NewSectionReader(file, s.from, s.to-s.from), f, fn); err != nil {
			return err
		}
	}
	more := indexed{file: info}
	err = event.Read(io.NewSectionReader(file, k.end, info.Size()-k.end), event.Filter{}, func(rec event.Record) error {
		more.add(rec)
		if !f.Match(rec) {
			return nil
		}
		return fn(rec)
	})
	if err != nil {
		return err
	}
	more.whole = r.Ended && k.end+more.end == info.Size()
	x.extend(r.ID, k, more)
	return nil
}
