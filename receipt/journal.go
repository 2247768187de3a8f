package receipt

import (
	"errors"
	"fmt"
)

// Journal states how much of a home's journal of requests was written, so that a
// later change of it is found.
type Journal struct {
	Link `json:"link"`

	JournalID string `json:"journal_id"`
	// Segment is the number of the file, from 1. Each has a chain of its own.
	Segment int64 `json:"segment"`
	// Oldest is the number of the oldest file that was kept. Older ones were removed
	// because of their size.
	Oldest int64 `json:"oldest"`
	// Records is the number of records in the file, and ChainHead their chain.
	Records   int64  `json:"records"`
	ChainHead string `json:"chain_head"`
}

// PredicateType is [TypeJournal].
func (*Journal) PredicateType() string { return TypeJournal }

// ID is the id of the statement.
func (j *Journal) ID() string { return j.JournalID }

// subjects: the records of the file.
func (j *Journal) subjects() []Subject {
	return []Subject{{Name: fmt.Sprintf("requests-%d", j.Segment), Digest: Digest{SHA256: j.ChainHead}}}
}

func (j *Journal) check() error {
	if err := errors.Join(j.Link.check(false), checkID("journal", j.JournalID)); err != nil {
		return err
	}
	if j.Segment < 1 || j.Oldest < 1 || j.Oldest > j.Segment || j.Records < 1 {
		return errors.New("the numbers of the journal contradict each other")
	}
	if !isHash(j.ChainHead) {
		return errors.New("chain_head is no hash")
	}
	return nil
}
