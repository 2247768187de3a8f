package statements

import (
	"crypto/ed25519"
	"errors"
	"os"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// currentKey is the key that the log says signs now.
type currentKey struct {
	exists bool   // the log has statements
	id     string // "" if no statement can be read
}

// currentKey finds it: the newest key statement names it, or else the last
// statement, which it has signed.
func (l *Log) currentKey(tx *store.Tx) (currentKey, error) {
	last, err := tx.LastStatement()
	if errors.Is(err, store.ErrNotFound) {
		return currentKey{}, nil
	}
	if err != nil {
		return currentKey{}, err
	}
	k := currentKey{exists: true}
	rotated, err := tx.LastOfHome(kindKey)
	if err == nil {
		k.id = strings.TrimPrefix(rotated.ID, keyPrefix)
		return k, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return k, err
	}
	for seq := last.Seq; seq > 0 && k.id == ""; seq-- {
		raw, err := l.store.ReadStatement(seq)
		if err != nil {
			continue // a verification names it
		}
		if id, err := receipt.SignedBy(raw); err == nil {
			k.id = id
		}
	}
	return k, nil
}

const keyLostHint = "put keys/signing.pem back, or `forkcell key rotate --lost` records the loss and makes a new key"

// missingError explains that the signing key cannot be read.
func (k currentKey) missingError(err error) error {
	if !k.exists || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return &api.Error{
		Kind: api.Refused, Code: api.CodeKeyLost, Err: err, Hint: keyLostHint,
		Message: "the key that signed this home's log is gone",
	}
}

// check refuses a key that the log does not know as the present one: what it
// signs would not verify.
func (k currentKey) check(key *receipt.Signer) error {
	if k.id == "" || key.KeyID() == k.id {
		return nil
	}
	return api.Refusef(api.CodeKeyLost, keyLostHint, "keys/signing.pem is key %s, and the log is signed by %s", key.KeyID(), k.id)
}

// KeyUsable refuses to begin what could not be signed in the end. It changes
// nothing: a rotation that was cut short is finished by the next signature.
func (l *Log) KeyUsable(tx *store.Tx) error {
	if _, err := l.store.StagedKey(); err == nil {
		return nil
	}
	current, err := l.currentKey(tx)
	if err != nil || !current.exists {
		return err
	}
	key, err := l.presentKey()
	if err != nil {
		return current.missingError(err)
	}
	return current.check(key)
}

// KeyLost makes a new signing key in place of one that is lost. The statement
// about it is signed by the new key alone, and says so.
func (l *Log) KeyLost() (*api.KeyInfo, error) {
	return l.replaceKey(func(tx *store.Tx, next *receipt.Signer) (signLink, error) {
		if err := l.settleRotation(tx); err != nil {
			return nil, err
		}
		current, err := l.currentKey(tx)
		if err != nil {
			return nil, err
		}
		if err := l.KeyUsable(tx); err == nil {
			return nil, api.Refusef(api.CodeKeyThere, "`forkcell key rotate` replaces it, signed by the old one", "the signing key is not lost")
		}
		old, err := l.knownPublic(current.id)
		return func(at receipt.Link) ([]byte, error) {
			return receipt.SignLostRotation(&receipt.Rotation{OldKeyID: current.id, Link: at}, old, next)
		}, err
	})
}

// knownPublic returns the public half of a key of this home, or nil.
func (l *Log) knownPublic(id string) (ed25519.PublicKey, error) {
	known, err := l.store.PublicKeys()
	if err != nil {
		return nil, err
	}
	pem, ok := known[id]
	if !ok {
		return nil, nil
	}
	return receipt.ParsePublic(pem)
}
