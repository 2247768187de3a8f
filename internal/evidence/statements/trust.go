package statements

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/forkcell/forkcell/receipt"
)

// Trust keeps a public key of others as trusted for bundles, and returns its id.
func (l *Log) Trust(pub ed25519.PublicKey) (string, error) {
	id := receipt.KeyID(pub)
	return id, l.store.TrustKey(id, receipt.MarshalPublic(pub))
}

// trustedKeys returns the keys that statements are verified with: the home's own, those
// of others that it trusts, and the given ones. Rotations in the home's log are
// followed.
func (l *Log) trustedKeys(given ...ed25519.PublicKey) (*receipt.KeySet, error) {
	set := receipt.NewKeySet()
	for _, pub := range given {
		set.Trust(pub)
	}
	if l.store == nil {
		return set, nil
	}
	others, err := l.store.TrustedKeys()
	if err != nil {
		return nil, err
	}
	for id, pem := range others {
		pub, err := receipt.ParsePublic(pem)
		if err != nil {
			return nil, fmt.Errorf("trusted key %s: %w", id, err)
		}
		set.Trust(pub)
	}
	return set, l.addOwnKeys(set)
}

// addOwnKeys trusts the keys that this home has held itself.
func (l *Log) addOwnKeys(set *receipt.KeySet) error {
	own, err := l.store.RetiredKeys()
	if err != nil {
		return err
	}
	// The staged one first: it may become the present one meanwhile.
	for name, read := range l.ownKeyFiles() {
		pem, err := read()
		if err == nil {
			own[name] = pem
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for id, pem := range own {
		key, err := receipt.ParsePrivate(pem)
		if err != nil {
			return fmt.Errorf("key %s: %w", id, err)
		}
		set.Trust(key.Public())
	}
	public, err := l.store.PublicKeys()
	for id, pem := range public {
		pub, err := receipt.ParsePublic(pem)
		if err != nil {
			return fmt.Errorf("public key %s: %w", id, err)
		}
		set.Trust(pub)
	}
	return err
}

// ownKeyFiles yields the readers of the keys that sign, or are about to.
func (l *Log) ownKeyFiles() iter.Seq2[string, func() ([]byte, error)] {
	return func(yield func(string, func() ([]byte, error)) bool) {
		if yield("staged", l.store.StagedKey) {
			yield("present", func() ([]byte, error) { return l.store.SigningKey(nil) })
		}
	}
}
