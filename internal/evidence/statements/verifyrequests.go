package statements

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/receipt"
)

// requests compares the journal of requests with what was signed of it. Records after
// the last signature are no damage: a daemon that was killed leaves them.
func (v *logVerifier) requests() error {
	found, err := v.log.store.Segments()
	if err != nil {
		return err
	}
	oldest := int64(0)
	for _, p := range v.journals {
		oldest = max(oldest, p.Oldest)
	}
	numbers := slices.Concat(found, slices.Collect(maps.Keys(v.journals)))
	slices.Sort(numbers)
	unsigned := uint64(0)
	for _, n := range slices.Compact(numbers) {
		if n < oldest {
			continue // it was removed, or is about to be
		}
		more, err := v.segment(n)
		if err != nil {
			return err
		}
		unsigned += more
	}
	if unsigned > 0 {
		v.res.Notes = append(v.res.Notes, fmt.Sprintf("%s of requests not signed yet", api.Counted(int(unsigned), "record")))
	}
	return nil
}

// segment checks one file of the journal, and returns the number of its records that
// are not signed.
func (v *logVerifier) segment(n int64) (unsigned uint64, err error) {
	p := v.journals[n]
	if p == nil {
		p = &receipt.Journal{JournalID: fmt.Sprintf("requests-%d", n)}
	}
	f, err := v.log.store.OpenSegment(n)
	if errors.Is(err, fs.ErrNotExist) {
		v.bound(p.JournalID, "requests", p.ChainHead, "missing")
		v.problem(p.JournalID, "file %d of the journal of requests is missing", n)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	head, all, err := event.VerifyStart(f, uint64(p.Records))
	signed := head == p.ChainHead && all >= uint64(p.Records)
	switch {
	case err != nil && !errors.Is(err, event.ErrCorrupt):
		return 0, err
	case err != nil && signed:
		v.res.Notes = append(v.res.Notes, fmt.Sprintf("file %d of the journal of requests cannot be read after what was signed: %v", n, err))
		return 0, nil
	case err != nil:
		v.problem(p.JournalID, "file %d of the journal of requests was changed: %v", n, err)
	case all < uint64(p.Records):
		v.problem(p.JournalID, "file %d of the journal of requests has %d records, the statement says %d", n, all, p.Records)
	case head != p.ChainHead:
		v.problem(p.JournalID, "file %d of the journal of requests was changed: its chain does not have the signed hash", n)
	default:
		if p.Records > 0 {
			v.bound(p.JournalID, "requests", p.ChainHead, "verified")
		}
		return all - uint64(p.Records), nil
	}
	v.bound(p.JournalID, "requests", p.ChainHead, "mismatch")
	return 0, nil
}
