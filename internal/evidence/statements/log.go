// Package statements is the record of a home that can be checked by others: the log
// of signed statements, the keys that sign it, receipts and bundles, their
// verification, and the recovery of a database from what was signed.
//
// It knows statements, database rows and the manifests of layers, by their ids. It
// must not know what runs in a cell: drivers, policies, the network; nor what a
// caller calls things: names, paths of files, the command line.
package statements

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// Log is the log of one home: it appends signed statements within transactions of
// the database, and reads, verifies and replays them.
type Log struct {
	store  *store.Store
	layers *workspace.Store
	now    func() time.Time
	actor  func() string
	// request is the request with a key that the statements belong to, or "".
	request string
	key     *signingKey
}

// signingKey is the key of a home, loaded within the first transaction that signs.
type signingKey struct {
	mu     sync.Mutex
	signer *receipt.Signer
}

// New returns the log of a home whose layers are in a workspace. The clock and the
// actor are those of the statements that it appends. A nil home has no statements.
func New(home *store.Store, layers *workspace.Store, now func() time.Time, actor func() string) *Log {
	return &Log{store: home, layers: layers, now: now, actor: actor, key: &signingKey{}}
}

// For returns the same log, with another actor of the statements that it appends.
// request is the id of the request with a key that they belong to, or "".
func (l *Log) For(actor func() string, request string) *Log {
	other := *l
	other.actor, other.request = actor, request
	return &other
}

// With returns the same log, of a home whose layers were opened later.
func (l *Log) With(layers *workspace.Store) *Log {
	other := *l
	other.layers = layers
	return &other
}

// Run appends the receipt of a run in a cell.
func (l *Log) Run(tx *store.Tx, c store.Cell, p *receipt.Run) error {
	return l.append(tx, store.Statement{ID: p.ReceiptID, Kind: kindRun, CellID: c.ID, RunID: p.RunID}, c.Name, p)
}

// Decision appends a decision of a cell about a run.
func (l *Log) Decision(tx *store.Tx, c store.Cell, p *receipt.Decision) error {
	return l.append(tx, store.Statement{ID: p.DecisionID, Kind: KindDecision, CellID: c.ID, RunID: p.RunID}, c.Name, p)
}

// Journal appends the statement of how much of the journal of requests was written.
func (l *Log) Journal(tx *store.Tx, p *receipt.Journal) error {
	p.JournalID = store.NewID("journal")
	return l.append(tx, store.Statement{ID: p.JournalID, Kind: kindJournal}, "", p)
}

// append signs a predicate and adds it to the log. cell is the name of the cell
// that the statement is about.
func (l *Log) append(tx *store.Tx, st store.Statement, cell string, p receipt.Predicate) error {
	key, err := l.signer(tx)
	if err != nil {
		return err
	}
	st, err = tx.Append(st, func(n store.Next) ([]byte, error) {
		*p.Place() = receipt.Link{
			HomeID: l.store.ID(), Seq: n.Seq, Prev: n.Prev, CellID: st.CellID, Cell: cell, CellPrev: n.CellPrev,
			CreatedAt: l.now().UTC(), Actor: l.actor(),
		}
		return key.Sign(p)
	})
	if err != nil || l.request == "" {
		return err
	}
	return tx.AddEffect(l.request, st.Seq)
}

// Envelope reads a statement of the log. It is not verified.
func (l *Log) Envelope(seq int64) (*receipt.Envelope, error) {
	var env *receipt.Envelope
	raw, err := l.store.ReadStatement(seq)
	if err == nil {
		env, err = receipt.ParseEnvelope(raw)
	}
	if err != nil {
		e := &api.Error{
			Kind: api.Refused, Code: api.CodeDamaged, Message: fmt.Sprintf("statement %d of the log cannot be read: %v", seq, err),
			Hint: "`forkcell receipt verify --all` names what is damaged", Err: err,
		}
		if errors.Is(err, fs.ErrNotExist) {
			e.Message = fmt.Sprintf("statement %d of the log is lost", seq)
			e.Hint = "put its file back into log/, or give it up with `forkcell recover --accept-loss`"
		}
		return nil, e
	}
	return env, nil
}

// LastName returns what the log calls a cell, for a message: nothing is verified. It
// is the id where the log has no name.
func (l *Log) LastName(cellID string) string {
	seqs, tail, err := l.store.SeqsOnDisk()
	if err != nil {
		return cellID
	}
	for _, seq := range slices.Backward(append(seqs, tail...)) {
		env, err := l.Envelope(seq)
		if err != nil {
			continue
		}
		if p, ok := env.Statement.Predicate.(*receipt.Change); ok && p.CellID == cellID && p.Of.Name != "" {
			return p.Of.Name
		}
	}
	return cellID
}
