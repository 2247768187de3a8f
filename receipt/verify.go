package receipt

import (
	"context"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// Verify reads an envelope and checks that it is signed by the trusted key that
// its statement names; a key statement also by the new key. The statement is the
// zero value unless the error is nil.
func Verify(envelope []byte, keys *KeySet) (Statement, error) {
	e, err := ParseEnvelope(envelope)
	if err != nil {
		return Statement{}, err
	}
	if err := e.Verify(keys); err != nil {
		return Statement{}, err
	}
	return e.Statement, nil
}

// Verify checks the signatures of an envelope that was read.
func (e *Envelope) Verify(keys *KeySet) error {
	place := e.Statement.Place()
	pub, err := keys.lookup(place)
	if err != nil {
		return fmt.Errorf("verify %s: %w", e.Statement.ID(), err)
	}
	verifiers := []dsse.Verifier{dsseVerifier{place.KeyID, pub}}
	if r, ok := e.Statement.Predicate.(*Rotation); ok {
		next, err := r.newKey()
		if err != nil {
			return fmt.Errorf("verify %s: %w", e.Statement.ID(), err)
		}
		verifiers = append(verifiers, dsseVerifier{r.NewKeyID, next})
	}
	ev, err := dsse.NewMultiEnvelopeVerifier(len(verifiers), verifiers...)
	if err != nil {
		return fmt.Errorf("verify %s: %w", e.Statement.ID(), err)
	}
	// As in sign: nothing to cancel.
	if _, err := ev.Verify(context.Background(), &e.dsse); err != nil {
		return fmt.Errorf("verify %s: %w by key %s: %w", e.Statement.ID(), ErrBadSignature, place.KeyID, err)
	}
	return nil
}
