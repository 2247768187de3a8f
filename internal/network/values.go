package network

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Values are the secrets of credentials, by name. The owner drops them or hands
// them over.
type Values map[string]*credential.Value

// ReadValues reads the operator's sources, given as NAME=SOURCE. A name that the
// policy does not have is refused before any source is read. The reader's Stderr
// receives messages of the sources' commands for the operator; nil drops them.
func ReadValues(ctx context.Context, p *policy.Policy, assignments []string, reader credential.Reader) (Values, error) {
	given := map[string]credential.Source{}
	for _, s := range assignments {
		a := credential.Assignment{Name: s}
		if !credential.IsName(s) { // else its source is in the credentials file
			var err error
			if a, err = credential.ParseAssignment(s); err != nil {
				return nil, fmt.Errorf("%w: --credential: %w", ErrConfig, err)
			}
			given[a.Name] = a.Source
		}
		if !slices.ContainsFunc(p.Credentials, func(c policy.Credential) bool { return c.Name == a.Name }) {
			return nil, fmt.Errorf("%w: --credential %s: the policy has no such credential", ErrConfig, a.Name)
		}
	}
	values := Values{}
	for _, c := range p.Credentials {
		source, ok := given[c.Name]
		if !ok {
			continue
		}
		value, err := reader.Read(ctx, source)
		if err != nil {
			values.Drop()
			return nil, fmt.Errorf("%w: credential %s: %w", ErrCredential, c.Name, err)
		}
		values[c.Name] = value
	}
	return values, nil
}

// ReadFile reads the operator's credentials file, and the sources in it for the
// wanted credentials of a policy, and no others. A line with a list of hosts
// applies if it covers all endpoints that the policy has for the credential. A
// line without one applies if the operator named the credential for this run. A
// file that does not exist has no lines.
func ReadFile(ctx context.Context, path string, wanted []policy.Credential, named []string, reader credential.Reader) (Values, error) {
	lines, err := credential.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Values{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCredential, quote.Path(path), err)
	}
	values := Values{}
	for _, l := range lines {
		i := slices.IndexFunc(wanted, func(c policy.Credential) bool { return c.Name == l.Name })
		if i < 0 {
			continue
		}
		err := checkPermitted(l, wanted[i], slices.Contains(named, l.Name))
		var value *credential.Value
		if err == nil {
			value, err = reader.Read(ctx, l.Source)
		}
		if err != nil {
			values.Drop()
			return nil, fmt.Errorf("%w: %s: credential %s: %w", ErrCredential, quote.Path(path), l.Name, err)
		}
		values[l.Name] = value
	}
	return values, nil
}

// checkPermitted refuses a credential that the policy would send to a host that its
// line does not cover.
func checkPermitted(l credential.Line, c policy.Credential, named bool) error {
	switch to := l.Uncovered(c); {
	case len(l.For) == 0 && named, to == "":
		return nil
	case len(l.For) == 0:
		return fmt.Errorf("its line names no host; write it as NAME=SOURCE for HOST, or give --credential %s", l.Name)
	default:
		return fmt.Errorf("the policy sends it to %s, which its line does not name; add the host there, or give --credential %s=SOURCE", to, l.Name)
	}
}

// TakeValues makes values from bytes that HandOver returned in another process.
// It takes ownership of the bytes.
func TakeValues(raw map[string][]byte) (Values, error) {
	values := Values{}
	for name, b := range raw {
		v, err := credential.NewValue(b)
		if err != nil {
			values.Drop()
			return nil, fmt.Errorf("%w: credential %s: %w", ErrConfig, name, err)
		}
		values[name] = v
	}
	return values, nil
}

// HandOver takes the bytes out of all values, to be sent to another process of
// the operator, which calls TakeValues.
func (v Values) HandOver() map[string][]byte {
	raw := map[string][]byte{}
	for name, value := range v {
		raw[name] = value.HandOver()
	}
	return raw
}

// Drop overwrites the values.
func (v Values) Drop() {
	for _, value := range v {
		value.Drop()
	}
}

// complete returns an error that names the first credential of a policy without
// a value.
func (v Values) complete(p *policy.Policy) error {
	for _, c := range p.Credentials {
		if v[c.Name] == nil {
			return fmt.Errorf("%w: the policy names the credential %s; give --credential %s=SOURCE, or a line %s=SOURCE for HOST in the credentials file", ErrCredential, c.Name, c.Name, c.Name)
		}
	}
	return nil
}
