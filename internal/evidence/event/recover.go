package event

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Recovery is the result of Recover.
type Recovery struct {
	// Records is the number of complete records.
	Records uint64
	// CutBytes is how many bytes were removed at the end; Reason is why.
	CutBytes int64
	Reason   string
}

// Recover opens the journal of a run whose supervisor died, so that the end of
// the run can be appended and the journal sealed. It keeps the longest valid
// start and removes an incomplete end. Records after a damaged one cannot come
// from a crash: then the error is ErrCorrupt, and the file is not changed.
func Recover(f File, m Meta, opt Options) (*Journal, Recovery, error) {
	fail := func(err error) (*Journal, Recovery, error) {
		return nil, Recovery{}, fmt.Errorf("event: recover journal: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fail(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fail(err)
	}
	j := newJournal(f, m, opt)
	found := Recovery{}
	switch err := lines(f, j.st.take); {
	case errors.Is(err, errTorn), errors.Is(err, ErrCorrupt):
		found.Reason = err.Error()
	case err != nil:
		return fail(err)
	}
	good := j.st.sum.Bytes
	found.Records, found.CutBytes = j.st.sum.Records, size-good
	if _, err := f.Seek(good, io.SeekStart); err != nil {
		return fail(err)
	}
	if found.CutBytes > 0 {
		if err := onlyTail(f); err != nil {
			return fail(err)
		}
		if err := f.Truncate(good); err != nil {
			return fail(err)
		}
		if _, err := f.Seek(good, io.SeekStart); err != nil {
			return fail(err)
		}
	}
	return j, found, nil
}

// onlyTail checks that the bytes after the valid start are the remains of one
// write: none of its lines may be a record.
func onlyTail(r io.Reader) error {
	b := bufio.NewReaderSize(r, maxLine)
	whole := true
	for {
		line, err := b.ReadSlice('\n')
		if err == nil && whole {
			if rec, err := parseRecord(bytes.TrimSuffix(line, []byte("\n"))); err == nil {
				return fmt.Errorf("%w: record %d follows a damaged one", ErrCorrupt, rec.Sequence)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
		whole = err == nil
	}
}

func sortRepeats(list []*repeat) {
	slices.SortFunc(list, func(a, b *repeat) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last), cmp.Compare(a.rec.TypeUID, b.rec.TypeUID))
	})
}
