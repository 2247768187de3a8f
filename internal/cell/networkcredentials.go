package cell

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
)

// readValues reads the values of a policy's credentials: by the operator's
// sources, and by the operator's file for what those leave out. Held are
// credentials that have a value already, which only a source replaces.
func (e *Engine) readValues(ctx context.Context, p *policy.Policy, req networkRequest, held ...string) (gateway.Values, error) {
	values, err := gateway.ReadValues(ctx, p, req.Credentials, e.caller.reader())
	if err != nil {
		return nil, settingError(err)
	}
	more, err := e.fileValues(ctx, p, req, held...)
	if err != nil {
		values.Drop()
		return nil, err
	}
	for name, v := range more {
		values[name] = v
	}
	return values, nil
}

// fileValues reads the operator's credentials file for the credentials that
// nothing else has. It is not looked at unless there are some: a mistake in it
// is no reason to refuse a run that does not need it.
func (e *Engine) fileValues(ctx context.Context, p *policy.Policy, req networkRequest, held ...string) (gateway.Values, error) {
	var wanted []policy.Credential
	for _, c := range p.Credentials {
		given := slices.ContainsFunc(req.Credentials, func(s string) bool { return strings.HasPrefix(s, c.Name+"=") })
		if !given && req.values[c.Name] == nil && !slices.Contains(held, c.Name) {
			wanted = append(wanted, c)
		}
	}
	if req.CredentialsFile == "" || len(wanted) == 0 {
		return gateway.Values{}, nil
	}
	// The real path is what is checked and what is read.
	file, err := realPath(string(req.CredentialsFile))
	if err != nil {
		return nil, api.Refusef(api.CodeCredential, "", "the credentials file %s: %v", quote.Path(string(req.CredentialsFile)), err)
	}
	if err := e.outsideWorkspaces("credentials file", file); err != nil {
		return nil, err
	}
	values, err := gateway.ReadFile(ctx, file, wanted, req.Credentials, e.caller.reader())
	if err != nil {
		return nil, settingError(err)
	}
	return values, nil
}

// heldCredentials are those of a new policy that a live cell has values for,
// because the policy that rules it names them. One that the new policy sends
// elsewhere is not among them: its value was given for other hosts.
func (e *Engine) heldCredentials(c store.Cell, next *policy.Policy) (names []string, err error) {
	var runs []store.Run
	err = e.view(func(tx *store.Tx) (err error) {
		runs, err = tx.UnfinishedRuns(c.ID)
		return err
	})
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	p, err := e.lastPolicy(runs[len(runs)-1])
	if err != nil {
		return nil, err
	}
	for _, old := range p.Credentials {
		if i := slices.IndexFunc(next.Credentials, func(c policy.Credential) bool { return c.Name == old.Name }); i >= 0 && reaches(old, next.Credentials[i]) {
			names = append(names, old.Name)
		}
	}
	return names, nil
}

// reaches reports whether a credential goes to all hosts and ports that another
// one goes to.
func reaches(old, next policy.Credential) bool {
	return !slices.ContainsFunc(next.Endpoints, func(e policy.CredentialEndpoint) bool {
		return slices.ContainsFunc(e.Ports, func(port uint16) bool {
			return !slices.ContainsFunc(old.Endpoints, func(o policy.CredentialEndpoint) bool {
				return o.Host.Equal(e.Host) && slices.Contains(o.Ports, port)
			})
		})
	})
}

// settingError is wrong usage, or a run that is refused because a credential has
// no value.
func settingError(err error) error {
	if errors.Is(err, gateway.ErrCredential) {
		return api.Refusef(api.CodeCredential, "", "%v", err)
	}
	return api.Usagef("", "%v", err)
}
