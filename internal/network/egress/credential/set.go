package credential

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

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
// request goes, or in a part of it where its credential has no place. The caller denies the request and records a finding.
type MisuseError struct {
	// Credential is the name of the placeholder's credential; "" if this run
	// has none, as in a fork that kept its parent's placeholder.
	Credential string
	// Part is the part of the request that holds it.
	Part string
	// Clear reports that the request would have gone in clear text.
	Clear bool
	// Here reports that the credential may go to the endpoint, in another part of the
	// request: Places are those in which its placeholder is replaced.
	Here   bool
	Places string
}

func (e *MisuseError) Error() string {
	if e.Credential == "" {
		return "the " + e.Part + " holds a placeholder that is not one of this run's"
	}
	if e.Clear {
		return "the " + e.Part + " holds the placeholder of the credential " + e.Credential + ", which goes over TLS only"
	}
	text := "the " + e.Part + " holds the placeholder of the credential " + e.Credential
	switch {
	case !e.Here:
		return text + ", which may not go to this endpoint"
	case e.Places == "":
		return text + ", which the policy replaces in no part of a request"
	}
	return text + ", which may only stand in " + e.Places
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

// Set holds the credentials of one run under one policy. Only Renew changes it. It
// is safe for concurrent use until Drop.
type Set struct {
	entries []*entry
	signer  *v4.Signer
	// ends are the endpoints of the credentials of the run, also of earlier policies,
	// and past the values of earlier policies.
	ends []end
	past []*Value

	// mu guards echo, which finds all values; nil after a change. It also guards next,
	// the Set that has replaced this one: what a request under way renews is its, too.
	mu   sync.Mutex
	echo *Echo
	next *Set
}

type end = policy.CredentialEndpoint

type entry struct {
	policy.Credential
	placeholder string
	// earlier are the placeholders of the credential in the cells whose memory this one
	// began with.
	earlier []string
	// login is the login that the credential is a token of, or "".
	login string

	// mu guards what a renewed login changes.
	mu    sync.RWMutex
	value *Value
	// kept reports that the value is a copy of an earlier Set's.
	kept bool
	// past are values that were replaced. They are not sent any more.
	past []*Value
	// leads are texts that stand before the placeholder in the cell, for programs
	// that check the form. They are replaced with it. The last one is current.
	leads []string
}

// text returns the current value.
func (e *entry) text() string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.value.text()
}

// shown returns the placeholder with its lead, as the cell has it.
func (e *entry) shown() string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if n := len(e.leads); n > 0 {
		return e.leads[n-1] + e.placeholder
	}
	return e.placeholder
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
	if s == nil {
		return newSet(credentials, values, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := newSet(credentials, values, s)
	if err != nil {
		return nil, err
	}
	s.next = next
	return next, nil
}

// Branch makes the Set of a cell that begins with the memory of this one's. Its
// credentials have new placeholders, and those of this Set are known too: the memory
// holds them. Where values has no value, they have a copy of this Set's.
func (s *Set) Branch(credentials []policy.Credential, values map[string]*Value) (*Set, error) {
	next, err := newSet(credentials, values, s)
	if err != nil {
		return nil, err
	}
	for _, e := range next.entries {
		if before := s.entryNamed(e.Name); before != nil {
			e.earlier, e.placeholder = append(slices.Clone(before.earlier), before.placeholder), newPlaceholder()
		}
	}
	return next, nil
}

func newSet(credentials []policy.Credential, values map[string]*Value, old *Set) (*Set, error) {
	s := &Set{signer: v4.NewSigner()}
	var errs []error
	for _, c := range credentials {
		e := &entry{Credential: c, value: values[c.Name]}
		before := old.entryNamed(c.Name)
		switch {
		case before != nil:
			e.keep(before)
		default:
			e.placeholder = newPlaceholder()
		}
		if e.value == nil || len(e.value.open()) == 0 {
			errs = append(errs, fmt.Errorf("credential %s: %w; give --credential %s=SOURCE", c.Name, ErrMissing, c.Name))
		}
		s.entries = append(s.entries, e)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s.remember(old)
	return s, nil
}

// remember takes from an earlier Set what it may have sent, and where: a host may
// repeat it later.
func (s *Set) remember(old *Set) {
	for _, e := range s.entries {
		s.ends = append(s.ends, e.Endpoints...)
	}
	if old == nil {
		return
	}
	known := map[string]bool{}
	for _, e := range s.entries {
		known[e.text()] = true
	}
	var before []string
	for _, v := range old.past {
		before = append(before, v.text())
	}
	for _, e := range old.entries {
		before = append(before, e.values()...)
	}
	for _, v := range before {
		if !known[v] {
			known[v] = true
			s.past = append(s.past, hold([]byte(v)))
		}
	}
	for len(s.past) > maxEarlier {
		s.past[0].Drop()
		s.past = slices.Delete(s.past, 0, 1)
	}
	for _, e := range old.ends {
		if !slices.ContainsFunc(s.ends, func(other end) bool { return other.Host.Equal(e.Host) }) {
			s.ends = append(s.ends, e)
		}
	}
}

// keep takes from an earlier Set what the new one does not have. Values are copied:
// the two Sets are dropped at different times.
func (e *entry) keep(before *entry) {
	before.mu.RLock()
	defer before.mu.RUnlock()
	e.placeholder, e.earlier, e.leads, e.login = before.placeholder, before.earlier, slices.Clone(before.leads), before.login
	if e.value == nil && before.value != nil {
		e.value, e.kept = before.value.clone(), true
	}
}

func (s *Set) entryNamed(name string) *entry {
	if s == nil {
		return nil
	}
	for _, e := range s.entries {
		if e.Name == name {
			return e
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
			out[e.ExposeAs] = e.shown()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		e.drop()
	}
	for _, v := range s.past {
		v.Drop()
	}
	s.echo.drop()
	s.entries, s.past, s.echo, s.next = nil, nil, nil, nil
	// The signer keeps keys that were derived from values.
	s.signer = nil
}

func (e *entry) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range append(e.past, e.value) {
		v.Drop()
	}
}

// String returns the number of credentials and no value.
func (s *Set) String() string { return fmt.Sprintf("%d credentials", len(s.entries)) }

// find returns the entry of a placeholder, or nil. Its duration does not depend
// on how much of a placeholder matches.
func (s *Set) find(placeholder []byte) *entry {
	var found *entry
	for _, e := range s.entries {
		same := subtle.ConstantTimeCompare([]byte(e.placeholder), placeholder)
		for _, earlier := range e.earlier {
			same |= subtle.ConstantTimeCompare([]byte(earlier), placeholder)
		}
		if same == 1 {
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

// check returns a MisuseError if a placeholder may not stand in a part of a request to
// the target. ok reports whether that part is a place of a credential that goes there.
func (s *Set) check(to Target, part string, placeholder []byte, ok func(*entry) bool) error {
	switch e := s.find(placeholder); {
	case e == nil:
		return &MisuseError{Part: part}
	case e.covers(to) && ok(e), (part == partBody || part == partMessage) && s.shows(e, to):
		return nil
	default:
		return s.misuse(to, part, e)
	}
}

// misuse returns the MisuseError for an entry's placeholder in a part of a request.
func (s *Set) misuse(to Target, part string, e *entry) *MisuseError {
	if !e.covers(to) {
		return &MisuseError{Credential: e.Name, Part: part, Clear: !to.Secure}
	}
	return &MisuseError{Credential: e.Name, Part: part, Here: true, Places: e.places()}
}

// shows reports whether a placeholder may stand in a body as it is: a token of a login
// that another token of the login is sent to. A program may show its login's file to its
// own service.
func (s *Set) shows(e *entry, to Target) bool {
	return e.login != "" && slices.ContainsFunc(s.entries, func(other *entry) bool { return other.login == e.login && other.covers(to) })
}

// use records which credentials one request uses.
type use struct {
	set      *Set
	to       Target
	inserted int
	tooMuch  bool
	names    map[string]bool
	// withheld are credentials that only sign: their values are never sent.
	withheld map[string]bool
}

// replace replaces plain placeholders by values, encoded by escape, and leaves
// every other byte unchanged. It replaces only credentials that go into bodies.
func (u *use) replace(b []byte, escape func(string) string) ([]byte, error) {
	if next(b) < 0 {
		return b, nil
	}
	var out []byte
	for {
		at := next(b)
		if at < 0 {
			return append(out, b...), nil
		}
		before, found := b[:at], b[at:at+length]
		b = b[at+length:]
		e := u.set.find(found)
		if e == nil || !e.covers(u.to) || u.withheld[e.Name] || !e.ReplaceInBody {
			out = append(append(out, before...), found...)
			continue
		}
		out = append(out, e.withoutLead(before)...)
		text := escape(e.text())
		if u.inserted += len(text); u.inserted > maxInserted {
			return nil, ErrTooMuch
		}
		u.names[e.Name] = true
		out = append(out, text...)
	}
}
