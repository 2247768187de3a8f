package credential

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxLead bounds the text before a placeholder. A lead of a JWT has its header and
// its claims.
const maxLead = 8 << 10

// ErrShape is returned for a text that is not a placeholder.
var ErrShape = errors.New("not a placeholder")

// NewPlaceholder returns a new placeholder after a lead: a text that a program
// expects there, such as github_pat_.
func NewPlaceholder(lead string) (string, error) {
	if err := checkLead(lead); err != nil {
		return "", err
	}
	return lead + newPlaceholder(), nil
}

// checkLead refuses characters that would be encoded in some part of a request.
func checkLead(lead string) error {
	if len(lead) > maxLead {
		return fmt.Errorf("%w: the text before it is longer than %d bytes", ErrShape, maxLead)
	}
	for i := range len(lead) {
		if c := lead[i]; !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return fmt.Errorf("%w: the text before it has more than letters, digits, dots, - and _", ErrShape)
		}
	}
	if next([]byte(lead)) >= 0 {
		return fmt.Errorf("%w: there are two", ErrShape)
	}
	return nil
}

// Shape gives credentials, by name, placeholders that NewPlaceholder returned: files
// of the cell hold them already. It must be called before the Set is used.
func (s *Set) Shape(placeholders map[string]string) error {
	for name, text := range placeholders {
		e := s.entryNamed(name)
		if e == nil {
			return fmt.Errorf("%w: no credential has the name %s", ErrShape, name)
		}
		at := len(text) - length
		if at < 0 || !looksLikePlaceholder([]byte(text[at:])) {
			return fmt.Errorf("%w: that of %s", ErrShape, name)
		}
		if err := checkLead(text[:at]); err != nil {
			return err
		}
		if other := s.find([]byte(text[at:])); other != nil && other != e {
			return fmt.Errorf("%w: %s and %s have the same", ErrShape, name, other.Name)
		}
		e.placeholder, e.leads = text[at:], []string{text[:at]}
	}
	return nil
}

// GroupLogin marks credentials as the tokens of one login. It must be called before the
// Set is used.
func (s *Set) GroupLogin(login string, names []string) {
	for _, name := range names {
		if e := s.entryNamed(name); e != nil {
			e.login = login
		}
	}
}

// withoutLead returns the text before a placeholder without the placeholder's lead.
func (e *entry) withoutLead(before []byte) []byte {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, lead := range e.leads {
		if rest, ok := bytes.CutSuffix(before, []byte(lead)); ok && lead != "" {
			return rest
		}
	}
	return before
}

// longestLead returns the length of the longest lead of the Set.
func (s *Set) longestLead() int {
	n := 0
	for _, e := range s.entries {
		e.mu.RLock()
		for _, lead := range e.leads {
			n = max(n, len(lead))
		}
		e.mu.RUnlock()
	}
	return n
}

// safeLength returns how much of b can be replaced and passed on while more may follow:
// the rest could be the start of a lead and a placeholder.
func (u *use) safeLength(b []byte) int {
	lead := u.set.longestLead()
	at := partial(b)
	if lead == 0 {
		return at
	}
	at = max(0, min(at, len(b)-lead-length+1))
	// Do not cut through a placeholder that is complete, nor off its lead.
	for from := 0; ; {
		i := next(b[from:])
		if i < 0 {
			return at
		}
		start, end := from+i, from+i+length
		if start-lead < at && at < end {
			at = end
		}
		from = end
	}
}

// maxPast is how many replaced values of a credential are remembered: those of an hour, if
// a cell renews a login as often as it can. maxLeads is how many leads are.
const (
	maxPast  = 64
	maxLeads = 8
)

// Renew replaces the value of a credential. Later requests are sent the new one. The
// lead is that of the placeholder from now on; the earlier ones stay known. The Set
// takes ownership of the value. Renew returns the placeholder as the cell is to see
// it.
func (s *Set) Renew(name string, value *Value, lead string) (string, error) {
	// No answer is searched with the old values once the new one can be sent.
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryNamed(name)
	if e == nil {
		value.Drop()
		return "", fmt.Errorf("no credential has the name %s", name)
	}
	if err := checkLead(lead); err != nil {
		value.Drop()
		return "", err
	}
	s.next.follow(name, value, lead)
	s.echo = nil
	e.renew(value, lead)
	return e.shown(), nil
}

// follow takes a value that was renewed in the Set before this one. Where the operator has
// given another, it is only remembered.
func (s *Set) follow(name string, value *Value, lead string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	e := s.entryNamed(name)
	if s.signer != nil && (e == nil || !e.kept) { // else it was dropped
		s.past, s.echo = append(s.past, value.clone()), nil
		s.next.follow(name, value, lead)
	}
	s.mu.Unlock()
	if e != nil && e.kept {
		_, _ = s.Renew(name, value.clone(), lead) // fails if this Set was dropped meanwhile
	}
}

func (e *entry) renew(value *Value, lead string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.value.text() != value.text() {
		e.past = append(e.past, e.value)
		e.value = value
	} else {
		value.Drop()
	}
	if len(e.past) > maxPast {
		e.past[0].Drop()
		e.past = slices.Delete(e.past, 0, 1)
	}
	e.leads = append(slices.DeleteFunc(e.leads, func(old string) bool { return old == lead }), lead)
	if len(e.leads) > maxLeads {
		e.leads = slices.Delete(e.leads, 0, 1)
	}
}

// Holds reports whether a text is the placeholder of a credential, with or without a
// lead.
func (s *Set) Holds(name, text string) bool {
	e := s.entryNamed(name)
	return e != nil && len(text) >= length && s.find([]byte(text[len(text)-length:])) == e
}

// IsCurrent reports whether a text is a credential's current value.
func (s *Set) IsCurrent(name, text string) bool {
	e := s.entryNamed(name)
	return e != nil && e.text() == text
}

// values returns the current value and those that it replaced.
func (e *entry) values() []string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var out []string
	if e.value != nil { // else it is only remembered
		out = append(out, e.value.text())
	}
	for _, v := range e.past {
		out = append(out, v.text())
	}
	return slices.DeleteFunc(out, func(v string) bool { return v == "" })
}

// LeadOf returns the lead of the placeholder for a value. A JWT keeps its header and
// its claims, which programs read: without the signature they are worth nothing.
// Other values have the lead that is given.
func LeadOf(value, otherwise string) string {
	parts := strings.Split(value, ".")
	if len(parts) != 3 || !strings.HasPrefix(value, "eyJ") || checkLead(parts[0]+"."+parts[1]+".") != nil {
		return otherwise
	}
	return parts[0] + "." + parts[1] + "."
}
