package receipt

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"testing"

	signing "github.com/cloudflare/circl/sign/ed25519"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// dsseSigner and dsseVerifier are the shapes that the standard's library wants.

type dsseSigner struct{ *Signer }

func (s dsseSigner) Sign(_ context.Context, data []byte) ([]byte, error) {
	return signing.Sign(s.private, data), nil
}

func (s dsseSigner) KeyID() (string, error) { return s.id, nil }

type dsseVerifier struct {
	id  string
	pub ed25519.PublicKey
}

func (v dsseVerifier) Verify(_ context.Context, data, sig []byte) error {
	if !ed25519.Verify(v.pub, data, sig) {
		return ErrBadSignature
	}
	return nil
}

func (v dsseVerifier) KeyID() (string, error)   { return v.id, nil }
func (v dsseVerifier) Public() crypto.PublicKey { return v.pub }

// The standard's own library makes the same envelopes, and verifies ours.
func TestSameAsTheStandardsLibrary(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "{}", "\x00\xff", `{"a":"DSSEv1 3 abc"}`} {
		first, second := testSigner(1), testSigner(2)
		ours := signed([]byte(payload), first, second)
		es, err := dsse.NewEnvelopeSigner(dsseSigner{first}, dsseSigner{second})
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := es.SignPayload(t.Context(), PayloadType, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		a, errA := json.Marshal(ours)
		b, errB := json.Marshal(theirs)
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%s\nlibrary:\n%s, %v, %v", a, b, errA, errB)
		}
		if got, want := preAuthentication(PayloadType, []byte(payload)), dsse.PAE(PayloadType, []byte(payload)); string(got) != string(want) {
			t.Errorf("%q, library: %q", got, want)
		}
		var read dsse.Envelope
		if err := json.Unmarshal(a, &read); err != nil {
			t.Fatal(err)
		}
		ev, err := dsse.NewMultiEnvelopeVerifier(2, dsseVerifier{first.id, first.Public()}, dsseVerifier{second.id, second.Public()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ev.Verify(t.Context(), &read); err != nil {
			t.Errorf("the library refuses: %v", err)
		}
	}
}
