package statements

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/receipt"
)

// signer returns the home's key, which is made at first use. It takes the
// transaction that signs: a rotation that a crash cut short is finished, or dropped,
// by what that transaction sees.
func (l *Log) signer(tx *store.Tx) (*receipt.Signer, error) {
	l.key.mu.Lock()
	defer l.key.mu.Unlock()
	if l.key.signer != nil {
		return l.key.signer, nil
	}
	key, err := l.loadSigner(tx)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	l.key.signer = key
	return key, nil
}

func (l *Log) loadSigner(tx *store.Tx) (*receipt.Signer, error) {
	if err := l.settleRotation(tx); err != nil {
		return nil, err
	}
	current, err := l.currentKey(tx)
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
	pem, err := l.store.SigningKey(generate)
	if err != nil {
		return nil, current.missingError(err)
	}
	key, err := receipt.ParsePrivate(pem)
	if err != nil {
		return nil, err
	}
	if err := current.check(key); err != nil {
		return nil, err
	}
	return key, l.store.KeepPublic(key.KeyID(), receipt.MarshalPublic(key.Public()))
}

// presentKey reads the signing key as it is.
func (l *Log) presentKey() (*receipt.Signer, error) {
	pem, err := l.store.SigningKey(nil)
	if err != nil {
		return nil, err
	}
	key, err := receipt.ParsePrivate(pem)
	if err != nil {
		return nil, api.Failf(api.CodeKey, err, "read the signing key")
	}
	return key, nil
}

// Key returns the signing identity.
func (l *Log) Key() (*api.KeyInfo, error) {
	none := api.Missing("key", "none was made yet", "`forkcell key init` makes one; so does the first cell")
	if l.store == nil {
		return nil, none
	}
	key, err := l.presentKey()
	if errors.Is(err, fs.ErrNotExist) {
		if lost := l.store.View(l.KeyUsable); lost != nil {
			return nil, lost
		}
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	return l.keyInfo(key)
}

// KeyInit makes the signing key if there is none.
func (l *Log) KeyInit() (*api.KeyInfo, error) {
	lock, err := l.store.LockHome(false)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var key *receipt.Signer
	err = l.store.Update(func(tx *store.Tx) (err error) {
		key, err = l.signer(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.keyInfo(key)
}

func (l *Log) keyInfo(key *receipt.Signer) (*api.KeyInfo, error) {
	trusted, err := l.store.TrustedKeys()
	if err != nil {
		return nil, err
	}
	retired, err := l.store.RetiredKeys()
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
func (l *Log) KeyRotate() (*api.KeyInfo, error) {
	if _, err := l.Key(); err != nil {
		return nil, err
	}
	return l.replaceKey(func(tx *store.Tx, next *receipt.Signer) (signLink, error) {
		old, err := l.signer(tx)
		return func(at receipt.Link) ([]byte, error) {
			return receipt.SignRotation(&receipt.Rotation{Link: at}, old, next)
		}, err
	})
}

// signLink signs the statement about a new key, knowing its place.
type signLink func(receipt.Link) ([]byte, error)

// replaceKey makes a new signing key. It waits beside the old one until the
// statement about it, for which prepare gives the signature, is committed.
func (l *Log) replaceKey(prepare func(tx *store.Tx, next *receipt.Signer) (signLink, error)) (*api.KeyInfo, error) {
	lock, err := l.store.LockHome(true)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	next, err := receipt.GenerateKey()
	if err != nil {
		return nil, err
	}
	err = l.store.Update(func(tx *store.Tx) error {
		sign, err := prepare(tx, next)
		if err != nil {
			return err
		}
		if err := l.store.StageKey(next.MarshalPrivate()); err != nil {
			return err
		}
		_, err = tx.Append(store.Statement{ID: keyStatementID(next), Kind: kindKey}, func(n store.Next) ([]byte, error) {
			return sign(receipt.Link{HomeID: l.store.ID(), Seq: n.Seq, Prev: n.Prev, CreatedAt: l.now().UTC(), Actor: l.actor()})
		})
		return err
	})
	if err != nil {
		return nil, errors.Join(err, l.store.DropStagedKey())
	}
	failpoint.Hit("key.rotated")
	l.ForgetKey()
	if err := l.store.Update(func(tx *store.Tx) error {
		_, err := l.signer(tx) // which promotes it
		return err
	}); err != nil {
		return nil, err
	}
	return l.keyInfo(next)
}

// ForgetKey makes the next signature read the key again: it was replaced, or may
// have been meanwhile, as a supervisor lives long enough to see.
func (l *Log) ForgetKey() {
	l.key.mu.Lock()
	defer l.key.mu.Unlock()
	l.key.signer = nil
}

// keyPrefix begins the ids of key statements in the index.
const keyPrefix = "key_"

func keyStatementID(k *receipt.Signer) string { return keyPrefix + k.KeyID() }

// settleRotation ends a rotation: the staged key takes over if the log says so,
// and is dropped if its statement never was committed. Rotations hold the home
// exclusively, so one that is under way is never met here.
func (l *Log) settleRotation(tx *store.Tx) error {
	pem, err := l.store.StagedKey()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	next, err := receipt.ParsePrivate(pem)
	if err != nil {
		return l.store.DropStagedKey()
	}
	_, err = tx.StatementByID(keyStatementID(next))
	if errors.Is(err, store.ErrNotFound) {
		return l.store.DropStagedKey()
	}
	if err != nil {
		return err
	}
	old, err := l.presentKey()
	if errors.Is(err, os.ErrNotExist) {
		return l.store.PromoteKey("") // the old one is lost
	}
	if err != nil {
		return err
	}
	return l.store.PromoteKey(old.KeyID())
}
