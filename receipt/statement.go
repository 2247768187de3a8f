package receipt

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// StatementType is the _type of every statement: in-toto Statement v1.
const StatementType = "https://in-toto.io/Statement/v1"

// The predicate types.
const (
	TypeRun      = "https://forkcell.dev/statement/run/v1"
	TypeDecision = "https://forkcell.dev/statement/decision/v1"
	TypeCell     = "https://forkcell.dev/statement/cell/v1"
	TypeKey      = "https://forkcell.dev/statement/key/v1"
	TypeLoss     = "https://forkcell.dev/statement/loss/v1"
	TypeJournal  = "https://forkcell.dev/statement/journal/v1"
	// TypeRaceDecision is a decision with a race.
	TypeRaceDecision = "https://forkcell.dev/statement/decision/v2"
)

// Statement is an in-toto Statement v1 whose predicate is one of [*Run],
// [*Decision], [*Change], [*Rotation] and [*Loss].
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject names what a statement is about by its digest.
type Subject struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Digest is an in-toto digest set with the one algorithm that is used here.
type Digest struct {
	SHA256 string `json:"sha256"`
}

// Predicate is the content of a statement. The set of predicates is closed.
type Predicate interface {
	// PredicateType is the URI of the predicate's type.
	PredicateType() string
	// ID names what the statement is about: the receipt of a run, a decision,
	// the cell that changed, the new key, a loss.
	ID() string
	// Place is the statement's place in the log.
	Place() *Link

	// subjects derives the subjects, so that they cannot contradict the predicate.
	subjects() []Subject
	// canonical brings values that have several spellings (times) to one.
	canonical()
	check() error
}

// Place is the statement's place in the log.
func (s Statement) Place() *Link { return s.Predicate.Place() }

// ID names what the statement is about; see [Predicate].
func (s Statement) ID() string { return s.Predicate.ID() }

// newStatement wraps a predicate that is complete.
func newStatement(p Predicate) (Statement, error) {
	p.canonical()
	if err := p.check(); err != nil {
		return Statement{}, fmt.Errorf("%s: %w", p.PredicateType(), err)
	}
	return Statement{
		Type:          StatementType,
		Subject:       p.subjects(),
		PredicateType: p.PredicateType(),
		Predicate:     p,
	}, nil
}

func emptyPredicate(predicateType string) (Predicate, bool) {
	switch predicateType {
	case TypeRun:
		return new(Run), true
	case TypeDecision, TypeRaceDecision:
		return new(Decision), true
	case TypeCell:
		return new(Change), true
	case TypeKey:
		return new(Rotation), true
	case TypeLoss:
		return new(Loss), true
	case TypeJournal:
		return new(Journal), true
	}
	return nil, false
}

// parseStatement reads the payload of an envelope, strictly.
func parseStatement(payload []byte) (Statement, error) {
	var head struct {
		Type          string          `json:"_type"`
		Subject       json.RawMessage `json:"subject"`
		PredicateType string          `json:"predicateType"`
		Predicate     json.RawMessage `json:"predicate"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return Statement{}, malformed("statement: %w", err)
	}
	if head.Type != StatementType {
		return Statement{}, malformed("statement: _type is %q, not %q", head.Type, StatementType)
	}
	p, ok := emptyPredicate(head.PredicateType)
	if !ok {
		return Statement{}, malformed("statement: unknown predicateType %q", head.PredicateType)
	}
	s := &Statement{Predicate: p}
	if err := decodeStrict(payload, s, s.opaque); err != nil {
		return Statement{}, malformed("statement: %w", err)
	}
	// A JSON null would have taken the predicate away.
	if s.Predicate == nil {
		return Statement{}, malformed("statement: no predicate")
	}
	if err := p.check(); err != nil {
		return Statement{}, malformed("statement: %w", err)
	}
	if p.PredicateType() != head.PredicateType {
		return Statement{}, malformed("statement: predicateType is %q, and the predicate is a %q", head.PredicateType, p.PredicateType())
	}
	if !reflect.DeepEqual(s.Subject, p.subjects()) {
		return Statement{}, malformed("statement: the subject is not what the predicate is about")
	}
	return *s, nil
}

// opaque returns the parts of a statement that are bound but not understood.
func (s *Statement) opaque() []json.RawMessage {
	var parts []json.RawMessage
	if r, ok := s.Predicate.(*Run); ok {
		for _, part := range []json.RawMessage{r.Controls.Asked, r.Controls.Achieved} {
			if len(part) > 0 {
				parts = append(parts, part)
			}
		}
	}
	return parts
}
