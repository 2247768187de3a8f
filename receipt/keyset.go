package receipt

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
)

// KeySet is the set of trusted keys. It is not safe for use by several goroutines
// while it is changed.
type KeySet struct {
	keys map[string]ed25519.PublicKey
	// retired has the place in a home's log after which a key is not valid any
	// more.
	retired map[homeKey]int64
	// via names the key that was trusted first, for keys that rotations added.
	via map[string]string
}

type homeKey struct{ home, key string }

// NewKeySet trusts the given keys.
func NewKeySet(pubs ...ed25519.PublicKey) *KeySet {
	k := &KeySet{
		keys:    map[string]ed25519.PublicKey{},
		retired: map[homeKey]int64{},
		via:     map[string]string{},
	}
	for _, pub := range pubs {
		k.Trust(pub)
	}
	return k
}

// Trust adds a key and returns its id.
func (k *KeySet) Trust(pub ed25519.PublicKey) string {
	id := KeyID(pub)
	k.keys[id] = slices.Clone(pub)
	return id
}

// Has reports whether a key is trusted.
func (k *KeySet) Has(id string) bool {
	_, ok := k.keys[id]
	return ok
}

// IDs lists the trusted keys, sorted.
func (k *KeySet) IDs() []string { return slices.Sorted(maps.Keys(k.keys)) }

// Origin is the key whose trust a key has inherited through rotations; the key
// itself if it was trusted directly.
func (k *KeySet) Origin(id string) string {
	if from, ok := k.via[id]; ok {
		return from
	}
	return id
}

// Follow verifies a key statement, trusts the new key, and retires the old one:
// what the old key signs later in that home's log is no longer trusted. A lost key
// is retired in the same way; its statement is signed by the new key, which must be
// trusted already. Trust goes
// forward only: trusting a new key does not mean trusting the ones before it.
func (k *KeySet) Follow(envelope []byte) error {
	env, err := ParseEnvelope(envelope)
	if err != nil {
		return err
	}
	if err := env.Verify(k); err != nil {
		return err
	}
	return k.follow(env.Statement)
}

// follow takes a statement that was verified with k.
func (k *KeySet) follow(s Statement) error {
	r, ok := s.Predicate.(*Rotation)
	if !ok {
		return malformed("follow: %s is not a key statement", s.PredicateType)
	}
	if seq, was := k.retired[homeKey{r.HomeID, r.NewKeyID}]; was && seq < r.Seq {
		return fmt.Errorf("%w: key %s was replaced before and cannot come back", ErrUntrusted, r.NewKeyID)
	}
	pub, err := r.newKey()
	if err != nil {
		return err
	}
	if !k.Has(r.NewKeyID) {
		k.Trust(pub)
		k.via[r.NewKeyID] = k.Origin(r.OldKeyID)
	}
	k.retired[homeKey{r.HomeID, r.OldKeyID}] = r.Seq
	return nil
}

// lookup returns the key that may sign at a place of a log.
func (k *KeySet) lookup(at *Link) (ed25519.PublicKey, error) {
	pub, ok := k.keys[at.KeyID]
	if !ok {
		return nil, fmt.Errorf("%w: key %s", ErrUntrusted, at.KeyID)
	}
	if seq, ok := k.retired[homeKey{at.HomeID, at.KeyID}]; ok && at.Seq > seq {
		return nil, fmt.Errorf("%w: key %s was replaced at seq %d", ErrUntrusted, at.KeyID, seq)
	}
	return pub, nil
}

func (k *KeySet) clone() *KeySet {
	return &KeySet{keys: maps.Clone(k.keys), retired: maps.Clone(k.retired), via: maps.Clone(k.via)}
}
