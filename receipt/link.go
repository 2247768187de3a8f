package receipt

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Link is a statement's place in the log of a home and in the chain of its cell.
type Link struct {
	// HomeID distinguishes the logs of different homes.
	HomeID string `json:"home_id"`
	// Seq is the place in the home's log: 1, 2, 3, ... without gaps.
	Seq int64 `json:"seq"`
	// Prev is the [Hash] of the previous envelope in the home's log; empty for
	// the first.
	Prev string `json:"prev"`
	// CellID is the immutable id of the cell; empty in statements about the home.
	CellID string `json:"cell_id"`
	// Cell is the name that the cell had at the time.
	Cell string `json:"cell"`
	// CellPrev is the [Hash] of the cell's previous envelope; empty for its first.
	CellPrev string `json:"cell_prev"`
	// CreatedAt is the time of the host's clock. Only Seq determines the order.
	CreatedAt time.Time `json:"created_at"`
	// Actor is the user who made the change, as far as the host knows.
	Actor string `json:"actor"`
	// KeyID is the key that signs. [Signer.Sign] fills it in.
	KeyID string `json:"key_id"`
}

// Place returns the place of any predicate that embeds a Link.
func (l *Link) Place() *Link { return l }

func (l *Link) canonical() { l.CreatedAt = utc(l.CreatedAt) }

func (l *Link) check(ofCell bool) error {
	switch {
	case !isToken(l.HomeID):
		return errors.New("link: bad home_id")
	case l.Seq < 1:
		return errors.New("link: seq is below 1")
	case (l.Seq == 1) != (l.Prev == ""):
		return errors.New("link: prev is for every statement but the first")
	case !isHashOrEmpty(l.Prev):
		return errors.New("link: prev is not a SHA-256")
	case !isHashOrEmpty(l.CellPrev):
		return errors.New("link: cell_prev is not a SHA-256")
	case !isHash(l.KeyID):
		return errors.New("link: key_id is not a SHA-256")
	case !isUTC(l.CreatedAt):
		return errors.New("link: created_at is not a UTC time")
	case ofCell && (!isToken(l.CellID) || l.Cell == ""):
		return errors.New("link: bad cell_id or no cell")
	case !ofCell && (l.CellID != "" || l.Cell != "" || l.CellPrev != ""):
		return errors.New("link: a cell in a statement that is about none")
	}
	return nil
}

// The checks below are written out because a regular expression would be compiled
// at the start of every process that links this package.

func isHash(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func isHashOrEmpty(s string) bool { return s == "" || isHash(s) }

// isToken accepts names that readers may use as a file name without harm.
func isToken(s string) bool {
	return s != "" && len(s) <= 128 && s[0] != '.' && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return !isAlphanumeric(r) && r != '.' && r != '_' && r != '-'
	})
}

// checkID accepts the ids of receipts, runs, decisions and checkpoints.
func checkID(prefix, id string) error {
	suffix, ok := strings.CutPrefix(id, prefix+"_")
	if !ok || suffix == "" || len(suffix) > 64 || strings.ContainsFunc(suffix, func(r rune) bool { return !isAlphanumeric(r) }) {
		return fmt.Errorf("%q is not a %s_ id", id, prefix)
	}
	return nil
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func utc(t time.Time) time.Time { return t.UTC().Round(0) }

func isUTC(t time.Time) bool {
	return t.Location() == time.UTC && !t.IsZero() && t.Year() >= 1 && t.Year() <= 9999
}
