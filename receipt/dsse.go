package receipt

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"

	signing "github.com/cloudflare/circl/sign/ed25519"
)

// document is an envelope of DSSE v1. The tests compare with the library of those
// who wrote the standard. It is not linked: it brings an implementation of SSH
// along, for ids of keys that do not occur here, which takes time at every start
// of the program.
type document struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// signed is the document of a payload.
func signed(payload []byte, signers ...*Signer) document {
	d := document{PayloadType: PayloadType, Payload: base64.StdEncoding.EncodeToString(payload)}
	text := preAuthentication(PayloadType, payload)
	for _, s := range signers {
		d.Signatures = append(d.Signatures, signature{s.id, base64.StdEncoding.EncodeToString(signing.Sign(s.private, text))})
	}
	return d
}

// preAuthentication returns the bytes that are signed for a payload.
func preAuthentication(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

// signedBy fails unless a signature of the document is that of the key.
func (d *document) signedBy(id string, key ed25519.PublicKey, payload []byte) error {
	text := preAuthentication(d.PayloadType, payload)
	for _, s := range d.Signatures {
		if s.KeyID != id {
			continue
		}
		sig, err := decodeBase64(s.Sig)
		if err != nil {
			return err
		}
		if !ed25519.Verify(key, text, sig) {
			return errors.New("the signature does not fit")
		}
		return nil
	}
	return errors.New("it has no signature of that key")
}
