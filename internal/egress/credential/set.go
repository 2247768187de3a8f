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
	// Secure says that it goes over TLS, to an upstream that is verified. No
	// credential goes anywhere else.
	Secure bool
}

// MisuseError says that a request holds a placeholder that must not go where the
// request goes. The request is to be denied, and a finding to be made of it.
type MisuseError struct {
	// Credential is the name of the credential whose placeholder it is; "" if
	// this run has none such, as in a fork that kept its parent's.
	Credential string
	// Part is the part of the request that holds it.
	Part string
	// Clear says that the request would have gone in clear text.
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

// Reasons why a request that misuses nothing cannot be sent either.
var (
	// ErrAmbiguous says that two credentials set one header.
	ErrAmbiguous = errors.New("more than one credential sets the same header of this request")
	// ErrTooMuch says that replacing would make a request grow without bound.
	ErrTooMuch = errors.New("the request repeats placeholders too often")
	// ErrMissing says that a credential of the policy has no value.
	ErrMissing = errors.New("the operator gives no source for it")
)

// maxInserted bounds what the placeholders of one request become.
const maxInserted = 1 << 20

// Set holds the credentials of one run under one policy. It does not change and
// may be used by many at once, until it is dropped.
type Set struct {
	entries []entry
	signer  *v4.Signer
}

type entry struct {
	policy.Credential
	value       *Value
	placeholder string
}

// NewSet makes the credentials of a run, each with a placeholder that nothing
// else ever had: every run, and every fork, makes a Set of its own. values is by
// name and must hold one for each credential; the Set takes them over.
func NewSet(credentials []policy.Credential, values map[string]*Value) (*Set, error) {
	return newSet(credentials, values, nil)
}

// Reload makes the Set of a new policy for the same run: credentials that stay
// keep their placeholders, because processes of the cell hold them, and their
// values too, as copies, where values has no new one.
func (s *Set) Reload(credentials []policy.Credential, values map[string]*Value) (*Set, error) {
	return newSet(credentials, values, s)
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
	// It keeps keys that were derived from values.
	s.signer = nil
}

// String names no value.
func (s *Set) String() string { return fmt.Sprintf("%d credentials", len(s.entries)) }

// find returns the entry of a placeholder, or nil. How long it takes does not
// depend on how much of a placeholder somebody has guessed.
func (s *Set) find(placeholder []byte) *entry {
	var found *entry
	for i := range s.entries {
		if subtle.ConstantTimeCompare([]byte(s.entries[i].placeholder), placeholder) == 1 {
			found = &s.entries[i]
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

// use is what one request did with the Set.
type use struct {
	set      *Set
	to       Target
	inserted int
	names    map[string]bool
	// withheld are credentials that only sign: their values never travel.
	withheld map[string]bool
}

// replace puts values, as escape writes them, in the place of plain
// placeholders, and leaves every other byte as it is. Only credentials for which
// ok holds are replaced.
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
