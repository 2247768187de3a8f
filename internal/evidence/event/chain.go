package event

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// domain separates these hashes from every other use of SHA-256.
const domain = "forkcell.event.chain.v1\x00"

// maxLine bounds one line, its end included.
const maxLine = 32 << 10

// ErrCorrupt is returned for a journal that differs from what was written: a
// record is damaged, missing or out of order.
var ErrCorrupt = errors.New("event journal is corrupt")

// errTorn is returned for a journal that ends in the middle of a record.
var errTorn = errors.New("the last record is incomplete")

// chain is the hash over all records so far. It starts with zeros.
type chain [sha256.Size]byte

// next is SHA-256(domain || chain || line), the line without its end.
func (c chain) next(line []byte) chain {
	h := sha256.New()
	h.Write([]byte(domain))
	h.Write(c[:])
	h.Write(line)
	var n chain
	h.Sum(n[:0])
	return n
}

func (c chain) String() string { return hex.EncodeToString(c[:]) }

// Record is one line of a journal as read.
type Record struct {
	Sequence uint64
	Time     time.Time
	Class    Class
	Action   Action
	// Count is how many events the record stands for, at least 1.
	Count uint64
	Cell  string
	Run   string
	// Raw is the line without its end. The caller owns it.
	Raw []byte

	prev    string
	dropped dropped
	// executed is the command line of a command that a client executed in a live cell.
	executed string
}

// storedLine holds the fields of a line that are read.
type storedLine struct {
	Time     *int64 `json:"time"`
	ClassUID Class  `json:"class_uid"`
	ActionID int    `json:"action_id"`
	Count    uint64 `json:"count"`
	Metadata struct {
		Sequence uint64 `json:"sequence"`
	} `json:"metadata"`
	Process struct {
		CmdLine string `json:"cmd_line"`
	} `json:"process"`
	Unmapped struct {
		Cell     string  `json:"cell"`
		Run      string  `json:"run"`
		Prev     string  `json:"prev"`
		Dropped  dropped `json:"dropped"`
		Executed bool    `json:"executed"`
	} `json:"unmapped"`
}

// ParseRecord reads one line of a journal, without its end. Whether it follows from
// those before it is not checked.
func ParseRecord(line []byte) (Record, error) { return parseRecord(line) }

// parseRecord reads one line. It checks the form, not the position.
func parseRecord(line []byte) (Record, error) {
	var s storedLine
	if err := json.Unmarshal(line, &s); err != nil {
		return Record{}, err
	}
	if s.Time == nil || s.Metadata.Sequence == 0 || s.ClassUID <= 0 || len(s.Unmapped.Prev) != 2*sha256.Size {
		return Record{}, errors.New("not a record of an event journal")
	}
	r := Record{
		Sequence: s.Metadata.Sequence, Time: time.UnixMilli(*s.Time).UTC(), Class: s.ClassUID,
		Action: ActionAllowed, Count: max(s.Count, 1), Cell: s.Unmapped.Cell, Run: s.Unmapped.Run,
		Raw: bytes.Clone(line), prev: s.Unmapped.Prev, dropped: s.Unmapped.Dropped,
	}
	if s.ActionID == 2 {
		r.Action = ActionDenied
	}
	if s.Unmapped.Executed {
		r.executed = s.Process.CmdLine
	}
	return r, nil
}

// Summary is the totals of a journal. A receipt carries it.
type Summary struct {
	// Records is the number of lines, and the last sequence number.
	Records uint64 `json:"records"`
	// Head is the hash of the chain, in hexadecimal digits.
	Head string `json:"head"`
	// Actions and Classes count the events that the records stand for.
	Actions map[Action]uint64 `json:"actions"`
	Classes map[Class]uint64  `json:"classes"`
	// Dropped counts, by action, the events that were not written because the
	// journal was full; they are not in the other counts.
	Dropped map[Action]uint64 `json:"dropped"`
	// Bytes is the size of the file.
	Bytes int64 `json:"bytes"`
	// Kinds are those that a record has, in the order of their first record.
	Kinds []Kind `json:"-"`
	// Executed are the commands that clients executed in a live cell.
	Executed Executed `json:"-"`
}

// Executed are the commands that clients executed in a live cell.
type Executed struct {
	Count uint64
	// Lines are the first command lines; the journal has them all.
	Lines []string
}

// The bounds of Executed.Lines, in lines and in bytes.
const (
	maxExecutedLines = 64
	maxExecutedBytes = 16 << 10
)

// Add counts the command of a record, if it is that of one.
func (x *Executed) Add(r Record) {
	if r.executed == "" {
		return
	}
	if x.Count == uint64(len(x.Lines)) && len(x.Lines) < maxExecutedLines && x.size()+len(r.executed) <= maxExecutedBytes {
		x.Lines = append(x.Lines, r.executed)
	}
	x.Count++
}

func (x *Executed) size() (n int) {
	for _, line := range x.Lines {
		n += len(line)
	}
	return n
}

func newSummary() Summary {
	return Summary{
		Head: chain{}.String(), Actions: map[Action]uint64{}, Classes: map[Class]uint64{}, Dropped: map[Action]uint64{},
	}
}

// state accumulates a summary.
type state struct {
	sum  Summary
	head chain
}

func newState() *state { return &state{sum: newSummary()} }

// take adds a record that must be the next one.
func (s *state) take(r Record) error {
	if r.Sequence != s.sum.Records+1 {
		return fmt.Errorf("%w: record %d where %d should be", ErrCorrupt, r.Sequence, s.sum.Records+1)
	}
	if r.prev != s.head.String() {
		return fmt.Errorf("%w: record %d does not follow from those before it", ErrCorrupt, r.Sequence)
	}
	s.add(r)
	return nil
}

// add counts a record without checking it.
func (s *state) add(r Record) {
	s.head = s.head.next(r.Raw)
	s.sum.Records++
	s.sum.Head = s.head.String()
	s.sum.Bytes += int64(len(r.Raw)) + 1
	s.sum.Actions[r.Action] += r.Count
	s.sum.Classes[r.Class] += r.Count
	s.sum.Executed.Add(r)
	if k := (Kind{r.Class, r.Action}); !slices.Contains(s.sum.Kinds, k) {
		s.sum.Kinds = append(s.sum.Kinds, k)
	}
	if r.dropped.Allowed > 0 {
		s.sum.Dropped[ActionAllowed] += r.dropped.Allowed
	}
	if r.dropped.Denied > 0 {
		s.sum.Dropped[ActionDenied] += r.dropped.Denied
	}
}

// lines calls fn for each record. The error is errTorn if only the end of the
// last line is missing, ErrCorrupt for a line that is not a record, or fn's.
func lines(r io.Reader, fn func(Record) error) error {
	b := bufio.NewReaderSize(r, maxLine)
	for n := uint64(1); ; n++ {
		line, err := b.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errTorn
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%w: line %d is longer than %d bytes", ErrCorrupt, n, maxLine)
		case err != nil:
			return fmt.Errorf("event: read journal: %w", err)
		}
		rec, err := parseRecord(line[:len(line)-1])
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrCorrupt, n, err)
		}
		if err := fn(rec); err != nil {
			return err
		}
	}
}

// Verify recomputes a journal's chain and counts. The caller compares the Head
// and Records with those of a receipt: a journal alone proves only that it is
// consistent. An incomplete last line counts as corruption.
func Verify(r io.Reader) (Summary, error) {
	s := newState()
	err := lines(r, s.take)
	if errors.Is(err, errTorn) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, errTorn)
	}
	return s.sum, err
}

// VerifyStart recomputes the chain of a journal's first records and returns its head,
// with the number of complete records in the whole journal. An incomplete last line is
// not counted.
func VerifyStart(r io.Reader, records uint64) (head string, all uint64, err error) {
	s := newState()
	err = lines(r, func(rec Record) error {
		if err := s.take(rec); err != nil {
			return err
		}
		if s.sum.Records == records {
			head = s.sum.Head
		}
		return nil
	})
	if errors.Is(err, errTorn) {
		err = nil
	}
	return head, s.sum.Records, err
}

// Filter selects the records that Read returns. Zero fields select everything.
type Filter struct {
	Class  Class
	Action Action
	// Since leaves out older records.
	Since time.Time
	// Limit keeps only the last records.
	Limit int
	// Cell and Sees select by the name of the cell in the record.
	Cell string
	Sees func(cell string) bool
}

// Match reports whether a filter selects a record. It ignores Limit.
func (f Filter) Match(r Record) bool {
	return f.MatchKind(Kind{r.Class, r.Action}) &&
		(f.Since.IsZero() || !r.Time.Before(f.Since)) &&
		(f.Cell == "" || f.Cell == r.Cell) && (f.Sees == nil || f.Sees(r.Cell))
}

// MatchKind reports whether a filter may select records of a kind.
func (f Filter) MatchKind(k Kind) bool {
	return (f.Class == 0 || f.Class == k.Class) && (f.Action == "" || f.Action == k.Action)
}

// Read calls fn for the records that f selects, in their order. It does not
// check the chain. A line that is being written at the end is left out.
func Read(r io.Reader, f Filter, fn func(Record) error) error {
	var last []Record
	err := lines(r, func(rec Record) error {
		switch {
		case !f.Match(rec):
			return nil
		case f.Limit <= 0:
			return fn(rec)
		case len(last) == f.Limit:
			// Moving the few requested records is cheap compared with parsing.
			copy(last, last[1:])
			last = last[:len(last)-1]
		}
		last = append(last, rec)
		return nil
	})
	if errors.Is(err, errTorn) {
		err = nil
	}
	if err != nil {
		return err
	}
	for _, rec := range last {
		if err := fn(rec); err != nil {
			return err
		}
	}
	return nil
}
