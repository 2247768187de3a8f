package receipt

import "fmt"

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
	if err := e.doc.signedBy(place.KeyID, pub, e.Payload); err != nil {
		return fmt.Errorf("verify %s: %w by key %s: %w", e.Statement.ID(), ErrBadSignature, place.KeyID, err)
	}
	r, ok := e.Statement.Predicate.(*Rotation)
	if !ok {
		return nil
	}
	next, err := r.newKey()
	if err != nil {
		return fmt.Errorf("verify %s: %w", e.Statement.ID(), err)
	}
	if err := e.doc.signedBy(r.NewKeyID, next, e.Payload); err != nil {
		return fmt.Errorf("verify %s: %w by key %s: %w", e.Statement.ID(), ErrBadSignature, r.NewKeyID, err)
	}
	return nil
}
