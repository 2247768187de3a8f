package receipt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// PayloadType is the DSSE payload type of every envelope.
const PayloadType = "application/vnd.in-toto+json"

// MaxEnvelope is the size of the largest envelope, in bytes.
const MaxEnvelope = 4 << 20

// Hash is the SHA-256 of an envelope's exact bytes in lower hex, as [Link.Prev],
// [Link.CellPrev] and [Decision.ReceiptSHA256] hold it.
func Hash(envelope []byte) string {
	sum := sha256.Sum256(envelope)
	return hex.EncodeToString(sum[:])
}

// Sign makes the envelope of a run, a decision or a change. It sets the
// predicate's KeyID and brings its times to UTC; everything else is the caller's.
// What cannot be read back exactly is an error, and is not signed.
func (s *Signer) Sign(p Predicate) ([]byte, error) {
	if _, ok := p.(*Rotation); ok {
		return nil, errors.New("sign: a rotation is signed by two keys: use SignRotation")
	}
	return sign(p, s)
}

// SignRotation makes the envelope by which the old key hands over to the next.
// It fills in every key field of r.
func SignRotation(r *Rotation, old, next *Signer) ([]byte, error) {
	r.OldKeyID, r.NewKeyID = old.KeyID(), next.KeyID()
	r.OldPublicKey = string(MarshalPublic(old.Public()))
	r.NewPublicKey = string(MarshalPublic(next.Public()))
	return sign(r, old, next)
}

// SignLostRotation makes the statement that a home's key was lost and another one
// signs from here on. r.OldKeyID says which was lost; its public part is nil if it
// is not known.
func SignLostRotation(r *Rotation, old ed25519.PublicKey, next *Signer) ([]byte, error) {
	r.Lost, r.NewKeyID = true, next.KeyID()
	if old != nil {
		r.OldPublicKey = string(MarshalPublic(old))
	}
	r.NewPublicKey = string(MarshalPublic(next.Public()))
	return sign(r, next)
}

func sign(p Predicate, signers ...*Signer) ([]byte, error) {
	p.Place().KeyID = signers[0].KeyID()
	s, err := newStatement(p)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if _, err := parseStatement(payload); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	raw, err := json.Marshal(signed(payload, signers...))
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if len(raw) > MaxEnvelope {
		return nil, malformed("sign: the envelope would have %d bytes, the limit is %d", len(raw), MaxEnvelope)
	}
	return raw, nil
}

// Envelope is an envelope that was read but not verified: do not rely on it
// before [Envelope.Verify] has returned nil.
type Envelope struct {
	Statement Statement
	// Payload is the statement's exact bytes.
	Payload []byte

	doc document
}

// ParseEnvelope reads an envelope strictly, without looking at the signatures.
func ParseEnvelope(raw []byte) (*Envelope, error) {
	if len(raw) > MaxEnvelope {
		return nil, malformed("envelope: %d bytes, the limit is %d", len(raw), MaxEnvelope)
	}
	var e Envelope
	if err := decodeStrict(raw, &e.doc, nothingOpaque); err != nil {
		return nil, malformed("envelope: %w", err)
	}
	if e.doc.PayloadType != PayloadType {
		return nil, malformed("envelope: payloadType is %q, not %q", e.doc.PayloadType, PayloadType)
	}
	var err error
	if e.Payload, err = decodeBase64(e.doc.Payload); err != nil {
		return nil, malformed("envelope: payload: %w", err)
	}
	if e.Statement, err = parseStatement(e.Payload); err != nil {
		return nil, fmt.Errorf("envelope: %w", err)
	}
	// A fixed number of signatures leaves no room to change an envelope's bytes,
	// and so its hash, without breaking it.
	want := 1
	if r, ok := e.Statement.Predicate.(*Rotation); ok && !r.Lost {
		want = 2
	}
	if len(e.doc.Signatures) != want {
		return nil, malformed("envelope: %d signatures, not %d", len(e.doc.Signatures), want)
	}
	for _, s := range e.doc.Signatures {
		if _, err := decodeBase64(s.Sig); err != nil {
			return nil, malformed("envelope: signature: %w", err)
		}
		if !isHash(s.KeyID) {
			return nil, malformed("envelope: signature: keyid is not a SHA-256")
		}
	}
	return &e, nil
}

// SignedBy returns the id of the key that an envelope says has signed it. It looks
// at nothing else, and verifies nothing.
func SignedBy(raw []byte) (string, error) {
	var doc struct {
		Signatures []signature `json:"signatures"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return "", malformed("envelope: %w", err)
	}
	if len(doc.Signatures) == 0 || !isHash(doc.Signatures[0].KeyID) {
		return "", malformed("envelope: no signature names its key")
	}
	return doc.Signatures[0].KeyID, nil
}

// decodeBase64 accepts the one standard spelling of the data; package base64
// would skip line breaks.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("line breaks in base64")
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}
