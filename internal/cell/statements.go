package cell

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/redact"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// Operations as the log names them. A drift is a refresh that nobody asked for:
// the live directory had changed outside any run.
const (
	opInit       = receipt.OpInit
	opFork       = receipt.OpFork
	opRename     = receipt.OpRename
	opRemove     = receipt.OpRemove
	opCheckpoint = receipt.OpCheckpoint
	opRefresh    = receipt.OpRefresh
	opDrift      = receipt.OpRefresh
	opRestore    = receipt.OpRestore
	opApply      = receipt.OpApply
	opUndo       = receipt.OpUndo
	opSquash     = receipt.OpSquash
	opPolicy     = receipt.OpPolicy
	opAccept     = receipt.OpAccept
	opPromote    = receipt.OpPromote
)

// The kinds of statements in the index.
const (
	kindRun      = "run"
	kindDecision = "decision"
	kindCell     = "cell"
	kindKey      = "key"
	kindLoss     = "loss"
	kindLost     = "lost" // a place in the log whose statement cannot be believed
)

// signer is the home's key, made at first use. It is asked for within the
// transaction that needs it, because a rotation that a crash cut short is
// finished, or dropped, by what that transaction sees.
func (e *Engine) signer(tx *store.Tx) (*receipt.Signer, error) {
	e.key.mu.Lock()
	defer e.key.mu.Unlock()
	if e.key.signer != nil {
		return e.key.signer, nil
	}
	key, err := e.loadSigner(tx)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	e.key.signer = key
	return key, nil
}

func (e *Engine) loadSigner(tx *store.Tx) (*receipt.Signer, error) {
	if err := e.settleRotation(tx); err != nil {
		return nil, err
	}
	current, err := e.currentKey(tx)
	if err != nil {
		return nil, err
	}
	generate := func() ([]byte, error) {
		key, err := receipt.GenerateKey()
		if err != nil {
			return nil, err
		}
		return key.MarshalPrivate(), nil
	}
	if current.exists {
		generate = nil // it would replace one that is lost, without a word
	}
	pem, err := e.store.SigningKey(generate)
	if err != nil {
		return nil, current.missing(err)
	}
	key, err := receipt.ParsePrivate(pem)
	if err != nil {
		return nil, err
	}
	if err := current.check(key); err != nil {
		return nil, err
	}
	return key, e.store.KeepPublic(key.KeyID(), receipt.MarshalPublic(key.Public()))
}

// log signs a predicate and adds it to the home's log.
func (e *Engine) log(tx *store.Tx, st store.Statement, cellName string, p receipt.Predicate) error {
	key, err := e.signer(tx)
	if err != nil {
		return err
	}
	_, err = tx.Append(st, func(n store.Next) ([]byte, error) {
		*p.Place() = receipt.Link{
			HomeID: e.store.ID(), Seq: n.Seq, Prev: n.Prev, CellID: st.CellID, Cell: cellName, CellPrev: n.CellPrev,
			CreatedAt: e.now().UTC(), Actor: e.caller.Actor(),
		}
		return key.Sign(p)
	})
	return err
}

// logChange states what happened to a cell, and everything needed to write its
// record again.
func (e *Engine) logChange(tx *store.Tx, c store.Cell, head store.Checkpoint, op receipt.Op, details map[string]string) error {
	if details == nil {
		details = map[string]string{}
	}
	extra, err := json.Marshal(cellExtra{
		SourceKind: c.SourceKind, Live: c.Live, Rules: c.Rules, LeftOut: c.LeftOut, Kept: c.Kept, Applied: c.Applied, Policy: c.Policy,
		Cache: c.Cache,
	})
	if err != nil {
		return err
	}
	details["record"] = string(extra)
	details["checkpoint_kind"] = head.Kind
	details["own_bytes"] = strconv.FormatInt(head.OwnBytes, 10)
	name := c.Name
	if name == "" {
		name = c.LastName
	}
	return e.log(tx, store.Statement{ID: store.NewID(changePrefix(op)), Kind: kindCell, CellID: c.ID}, name, &receipt.Change{
		Op: op, Of: cellStatement(c, name), Checkpoint: checkpointStatement(head, details["name"]), Details: details,
	})
}

// changePrefix begins the id of a change in the index. gc looks for restores, which
// are few, among all changes.
func changePrefix(op receipt.Op) string {
	if op == opRestore {
		return "restore"
	}
	return "op"
}

// cellExtra is the part of a cell's record that the statement format has no
// fields for.
type cellExtra struct {
	SourceKind string          `json:"source_kind"`
	Live       string          `json:"live,omitempty"`
	Rules      store.Rules     `json:"rules"`
	LeftOut    []store.LeftOut `json:"left_out,omitempty"`
	Kept       []string        `json:"kept,omitempty"`
	Applied    string          `json:"applied"`
	Policy     string          `json:"policy,omitempty"`
	Cache      string          `json:"cache,omitempty"`
}

func cellStatement(c store.Cell, name string) receipt.Cell {
	out := receipt.Cell{
		ID: c.ID, Name: name, Source: c.Source, Backend: c.Backend, BackendReason: c.BackendReason, Runtime: c.Runtime,
		MountAt: c.MountAt, ReadOnly: c.ReadOnly, LeftOutRules: c.Rules.Extra, Live: c.Live != "",
	}
	if c.ForkedCell != "" {
		out.ForkedFrom = &receipt.Origin{CellID: c.ForkedCell, Checkpoint: c.ForkedCheckpoint}
	}
	return out
}

func checkpointStatement(c store.Checkpoint, name string) receipt.Checkpoint {
	areas := map[string]receipt.Roots{}
	for area, r := range c.Areas {
		areas[area] = receipt.Roots{Root: r.Root, MetaRoot: r.MetaRoot}
	}
	return receipt.Checkpoint{
		ID: c.ID, Parent: c.Parent, Layer: c.Layer, Name: name, Root: c.Root(), MetaRoot: c.MetaRoot(), Areas: areas,
	}
}

// stateDetail is a state that a statement mentions besides the head: the one that
// the source now corresponds to.
func stateDetail(c store.Checkpoint) (string, error) {
	data, err := json.Marshal(detailedState{checkpointStatement(c, ""), c.Kind})
	return string(data), err
}

type detailedState struct {
	Checkpoint receipt.Checkpoint `json:"checkpoint"`
	Kind       string             `json:"kind"`
}

func checkpointRef(c store.Checkpoint) receipt.CheckpointRef {
	return receipt.CheckpointRef{ID: c.ID, Root: c.Root(), MetaRoot: c.MetaRoot()}
}

// recordable is argv as it may be kept: secrets out, every byte as text.
func recordable(argv []string) []string {
	out := redact.Args(argv)
	for i, a := range out {
		if pathBase64(a) != "" {
			out[i] = quote.Arg(a)
		}
	}
	return out
}
