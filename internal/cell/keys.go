package cell

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/failpoint"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// Key tells the signing identity.
func (e *Engine) Key(context.Context) (*api.KeyInfo, error) {
	if e.store == nil {
		return nil, api.Missing("key", "none was made yet", "`forkcell key init` makes one; so does the first cell")
	}
	key, err := e.presentKey()
	if errors.Is(err, os.ErrNotExist) {
		if lost := e.view(e.keyUsable); lost != nil {
			return nil, lost
		}
		return nil, api.Missing("key", "none was made yet", "`forkcell key init` makes one; so does the first cell")
	}
	if err != nil {
		return nil, err
	}
	return e.keyInfo(key)
}

// presentKey reads the signing key as it is.
func (e *Engine) presentKey() (*receipt.Signer, error) {
	pem, err := e.store.SigningKey(nil)
	if err != nil {
		return nil, err
	}
	key, err := receipt.ParsePrivate(pem)
	if err != nil {
		return nil, api.Failf(api.CodeKey, err, "read the signing key")
	}
	return key, nil
}

// KeyInit makes the signing key if there is none.
func (e *Engine) KeyInit(context.Context) (*api.KeyInfo, error) {
	lock, err := e.store.LockHome(false)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var key *receipt.Signer
	err = e.store.Update(func(tx *store.Tx) (err error) {
		key, err = e.signer(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return e.keyInfo(key)
}

func (e *Engine) keyInfo(key *receipt.Signer) (*api.KeyInfo, error) {
	trusted, err := e.store.TrustedKeys()
	if err != nil {
		return nil, err
	}
	retired, err := e.store.RetiredKeys()
	if err != nil {
		return nil, err
	}
	return &api.KeyInfo{
		KeyID: key.KeyID(), Algorithm: "ed25519", PublicKeyPEM: string(receipt.MarshalPublic(key.Public())),
		Trusted: sortedKeys(trusted), Previous: sortedKeys(retired),
	}, nil
}

func sortedKeys(m map[string][]byte) []string {
	return append([]string{}, slices.Sorted(maps.Keys(m))...)
}

// KeyRotate replaces the signing key; the old one signs the new one.
func (e *Engine) KeyRotate(ctx context.Context) (*api.KeyInfo, error) {
	if _, err := e.Key(ctx); err != nil {
		return nil, err
	}
	return e.replaceKey(func(tx *store.Tx, next *receipt.Signer) (signLink, error) {
		old, err := e.signer(tx)
		return func(l receipt.Link) ([]byte, error) {
			return receipt.SignRotation(&receipt.Rotation{Link: l}, old, next)
		}, err
	})
}

// signLink signs the statement about a new key, knowing its place.
type signLink func(receipt.Link) ([]byte, error)

// replaceKey makes a new signing key. It waits beside the old one until the
// statement about it, for which prepare gives the signature, is committed.
func (e *Engine) replaceKey(prepare func(tx *store.Tx, next *receipt.Signer) (signLink, error)) (*api.KeyInfo, error) {
	lock, err := e.store.LockHome(true)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	next, err := receipt.GenerateKey()
	if err != nil {
		return nil, err
	}
	err = e.store.Update(func(tx *store.Tx) error {
		sign, err := prepare(tx, next)
		if err != nil {
			return err
		}
		if err := e.store.StageKey(next.MarshalPrivate()); err != nil {
			return err
		}
		_, err = tx.Append(store.Statement{ID: keyStatementID(next), Kind: kindKey}, func(n store.Next) ([]byte, error) {
			return sign(receipt.Link{HomeID: e.store.ID(), Seq: n.Seq, Prev: n.Prev, CreatedAt: e.now().UTC(), Actor: e.caller.Actor()})
		})
		return err
	})
	if err != nil {
		return nil, errors.Join(err, e.store.DropStagedKey())
	}
	failpoint.Hit("key.rotated")
	e.forgetKey()
	if err := e.store.Update(func(tx *store.Tx) error {
		_, err := e.signer(tx) // which promotes it
		return err
	}); err != nil {
		return nil, err
	}
	return e.keyInfo(next)
}

// forgetKey makes the next signature read the key again: it was replaced, or may
// have been meanwhile, as a supervisor lives long enough to see.
func (e *Engine) forgetKey() {
	e.key.mu.Lock()
	defer e.key.mu.Unlock()
	e.key.signer = nil
}

// keyStatementPrefix begins the ids of key statements in the index.
const keyStatementPrefix = "key_"

func keyStatementID(k *receipt.Signer) string { return keyStatementPrefix + k.KeyID() }

// settleRotation ends a rotation: the staged key takes over if the log says so,
// and is dropped if its statement never was committed. Rotations hold the home
// exclusively, so one that is under way is never met here.
func (e *Engine) settleRotation(tx *store.Tx) error {
	pem, err := e.store.StagedKey()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	next, err := receipt.ParsePrivate(pem)
	if err != nil {
		return e.store.DropStagedKey()
	}
	_, err = tx.StatementByID(keyStatementID(next))
	if errors.Is(err, store.ErrNotFound) {
		return e.store.DropStagedKey()
	}
	if err != nil {
		return err
	}
	old, err := e.presentKey()
	if errors.Is(err, os.ErrNotExist) {
		return e.store.PromoteKey("") // the old one is lost
	}
	if err != nil {
		return err
	}
	return e.store.PromoteKey(old.KeyID())
}

// KeyTrust keeps somebody else's public key as trusted for bundles.
func (e *Engine) KeyTrust(_ context.Context, file string) (string, error) {
	data, err := os.ReadFile(e.caller.path(file))
	if err != nil {
		return "", api.Usagef("", "%s: %v", quote.Path(file), err)
	}
	pub, err := receipt.ParsePublic(data)
	if err != nil {
		return "", api.Usagef("give a PEM (SPKI) Ed25519 public key", "%s: %v", quote.Path(file), err)
	}
	id := receipt.KeyID(pub)
	return id, e.store.TrustKey(id, receipt.MarshalPublic(pub))
}
