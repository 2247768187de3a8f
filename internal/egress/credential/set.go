package credential

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/forkcell/forkcell/internal/policy"
)

// Target is where a request goes, with its path in canonical form.
type Target struct {
	Host string
	Port uint16
	Path string
	// Secure reports that the request goes over TLS to a verified upstream.
	// Credentials are sent only then.
	Secure bool
}

// MisuseError reports a placeholder in a request that must not go where the
// request goes. The caller denies the request and records a finding.
type MisuseError struct {
	// Credential is the name of the placeholder's credential; "" if this run
	// has none, as in a fork that kept its parent's placeholder.
	Credential string
	// Part is the part of the request that holds it.
	Part string
	// Clear reports that the request would have gone in clear text.
	Clear bool
}

func (e *MisuseError) Error() string {
	if e.Credential == "" {
		return "the " + e.Part + " holds a placeholder that is not one of this run's"
	}
	if e.Clear {
		return "the " + e.Part + " holds the placeholder of the credential " + e.Credential + ", which goes over TLS only"
	}
	return "the " + e.Part + " holds the placeholder of the credential " + e.Credential + ", which may not go to this endpoint"
}

// Reasons other than misuse why a request cannot be sent.
var (
	// ErrAmbiguous is returned when two credentials set one header.
	ErrAmbiguous = errors.New("more than one credential sets the same header of this request")
	// ErrTooMuch is returned when replacing would make a request too large.
	ErrTooMuch = errors.New("the request repeats placeholders too often")
	// ErrMissing is returned when a credential of the policy has no value.
	ErrMissing = errors.New("the operator gives no source for it")
)

// maxInserted bounds the size of all values inserted into one request.
const maxInserted = 1 << 20

// Set holds the credentials of one run under one policy. It does not change,
// and is safe for concurrent use until Drop.
type Set struct {
	entries []entry
	signer  *v4.Signer
}

type entry struct {
	policy.Credential
	value       *Value
	placeholder string
	// earlier is the placeholder of the credential in the cell whose memory this one
	// began with, or "".
	earlier string
}

// NewSet makes the credentials of a run, each with a new placeholder: every run
// and every fork makes its own Set. values is by name and must hold one for
// each credential; the Set takes ownership of them.
func NewSet(credentials []policy.Credential, values map[string]*Value) (*Set, error) {
	return newSet(credentials, values, nil)
}

// Reload makes the Set of a new policy for the same run. Credentials that stay
// keep their placeholders, because processes of the cell hold them. Where
// values has no new value, they also keep a copy of the old one.
func (s *Set) Reload(credentials []policy.Credential, values map[string]*Value) (*Set, error) {
	return newSet(credentials, values, s)
}

// Branch makes the Set of a cell that begins with the memory of this one's. Its
// credentials have new placeholders, and those of this Set are known too: the memory
// holds them. Where values has no value, they have a copy of this Set's.
func (s *Set) Branch(credentials []policy.Credential, values map[string]*Value) (*Set, error) {
	next, err := newSet(credentials, values, s)
	if err != nil {
		return nil, err
	}
	for i := range next.entries {
		e := &next.entries[i]
		if before := s.named(e.Name); before != nil {
			e.earlier, e.placeholder = before.placeholder, newPlaceholder()
		}
	}
	return next, nil
}

func newSet(credentials []policy.Credential, values map[string]*Value, old *Set) (*Set, error) {
	s := &Set{signer: v4.NewSigner()}
	var errs []error
	for _, c := range credentials {
		e := entry{Credential: c, value: values[c.Name]}
		before := old.named(c.Name)
		switch {
		case before != nil:
			e.placeholder = before.placeholder
			if e.value == nil {
				// A copy: the two Sets are dropped at different times.
				e.value = before.value.clone()
			}
		default:
			e.placeholder = newPlaceholder()
		}
		if e.value == nil || len(e.value.open()) == 0 {
			errs = append(errs, fmt.Errorf("credential %s: %w", c.Name, ErrMissing))
		}
		s.entries = append(s.entries, e)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Set) named(name string) *entry {
	if s == nil {
		return nil
	}
	for i := range s.entries {
		if s.entries[i].Name == name {
			return &s.entries[i]
		}
	}
	return nil
}

// Environment returns the variables with placeholders that the cell gets, by
// name.
func (s *Set) Environment() map[string]string {
	out := map[string]string{}
	for _, e := range s.entries {
		if e.ExposeAs != "" {
			out[e.ExposeAs] = e.placeholder
		}
	}
	return out
}

// Names returns the credentials of the Set, sorted.
func (s *Set) Names() []string {
	names := map[string]bool{}
	for _, e := range s.entries {
		names[e.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Drop overwrites the values. No request may use the Set from then on.
func (s *Set) Drop() {
	for _, e := range s.entries {
		e.value.Drop()
	}
	s.entries = nil
	// The signer keeps keys that were derived from values.
	s.signer = nil
}

// String returns the number of credentials and no value.
func (s *Set) String() string { return fmt.Sprintf("%d credentials", len(s.entries)) }

// find returns the entry of a placeholder, or nil. Its duration does not depend
// on how much of a placeholder matches.
func (s *Set) find(placeholder []byte) *entry {
	var found *entry
	for i := range s.entries {
		e := &s.entries[i]
		if subtle.ConstantTimeCompare([]byte(e.placeholder), placeholder)|subtle.ConstantTimeCompare([]byte(e.earlier), placeholder) == 1 {
			found = e
		}
	}
	return found
}

func (e *entry) covers(to Target) bool {
	return to.Secure && slices.ContainsFunc(e.Endpoints, func(p policy.CredentialEndpoint) bool {
		return p.Covers(to.Host, to.Port, to.Path)
	})
}

// check returns a MisuseError if a placeholder may not go to the target.
func (s *Set) check(to Target, part string, placeholder []byte) error {
	switch e := s.find(placeholder); {
	case e == nil:
		return &MisuseError{Part: part}
	case !e.covers(to):
		return &MisuseError{Credential: e.Name, Part: part, Clear: !to.Secure}
	}
	return nil
}

// use records which credentials one request uses.
type use struct {
	set      *Set
	to       Target
	inserted int
	names    map[string]bool
	// withheld are credentials that only sign: their values are never sent.
	withheld map[string]bool
}

// replace replaces plain placeholders by values, encoded by escape, and leaves
// every other byte unchanged. It replaces only credentials for which ok returns
// true.
func (u *use) replace(b []byte, escape func(string) string, ok func(*entry) bool) ([]byte, error) {
	if next(b) < 0 {
		return b, nil
	}
	var out []byte
	for {
		at := next(b)
		if at < 0 {
			return append(out, b...), nil
		}
		out = append(out, b[:at]...)
		found := b[at : at+length]
		b = b[at+length:]
		e := u.set.find(found)
		if e == nil || !e.covers(u.to) || u.withheld[e.Name] || !ok(e) {
			out = append(out, found...)
			continue
		}
		text := escape(e.value.text())
		if u.inserted += len(text); u.inserted > maxInserted {
			return nil, ErrTooMuch
		}
		u.names[e.Name] = true
		out = append(out, text...)
	}
}
