package receipt

import (
	"crypto/ed25519"
	"errors"
	"fmt"
)

// Rotation replaces the signing key of a home. Its envelope carries two
// signatures: the old key's, which passes the trust on, and the new key's, which
// shows that the process that rotates has the new key.
//
// If the old key is lost, only the new key signs. Such a statement passes no trust
// on: the new key must be trusted for another reason.
type Rotation struct {
	Link `json:"link"` // KeyID is the old key, or the new one if the old one is lost

	OldKeyID string `json:"old_key_id"`
	NewKeyID string `json:"new_key_id"`
	// The public keys, PEM (SPKI).
	OldPublicKey string `json:"old_public_key"` // empty if it is lost and not known
	NewPublicKey string `json:"new_public_key"`
	// Lost means that the old key is lost and did not sign.
	Lost   bool   `json:"lost,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// PredicateType is [TypeKey].
func (*Rotation) PredicateType() string { return TypeKey }

// ID is the id of the new key.
func (r *Rotation) ID() string { return r.NewKeyID }

func (r *Rotation) subjects() []Subject {
	return []Subject{{Name: "key", Digest: Digest{SHA256: r.NewKeyID}}}
}

func (r *Rotation) check() error {
	if err := r.Link.check(false); err != nil {
		return err
	}
	switch {
	case r.Lost && r.KeyID != r.NewKeyID:
		return errors.New("the old key is lost, and new_key_id is not the key that signs")
	case !r.Lost && r.KeyID != r.OldKeyID:
		return errors.New("old_key_id is not the key that signs")
	case r.OldKeyID == r.NewKeyID:
		return errors.New("the new key is the old key")
	case !isHash(r.OldKeyID):
		return errors.New("old_key_id is not a SHA-256")
	}
	if err := checkPublic(r.OldPublicKey, r.OldKeyID); err != nil && (!r.Lost || r.OldPublicKey != "") {
		return fmt.Errorf("old_public_key: %w", err)
	}
	if err := checkPublic(r.NewPublicKey, r.NewKeyID); err != nil {
		return fmt.Errorf("new_public_key: %w", err)
	}
	return nil
}

// newKey is sound after check.
func (r *Rotation) newKey() (ed25519.PublicKey, error) {
	return ParsePublic([]byte(r.NewPublicKey))
}

func checkPublic(text, id string) error {
	pub, err := ParsePublic([]byte(text))
	if err != nil {
		return err
	}
	if KeyID(pub) != id {
		return errors.New("the key does not have the id that is told")
	}
	// One spelling only, so that equal keys are equal text.
	if string(MarshalPublic(pub)) != text {
		return errors.New("the PEM is not in its usual form")
	}
	return nil
}
