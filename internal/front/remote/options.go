package remote

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// forever is how long a command waits for a busy cell if it waits for ever.
const forever = 10 * 365 * 24 * time.Hour

// settings returns the options of a run as the API has them. It refuses those that
// name things of a host, which the caller of an API cannot.
func (e *Engine) settings(ctx context.Context, o api.RunOptions) (api.RunSettings, error) {
	s := api.RunSettings{
		Workdir: string(o.Workdir), Timeout: duration(o.Timeout), CPUs: float64(o.CPUs) / 1000, PIDs: o.PIDs, Root: string(o.Root),
		AsRoot: o.AsRoot, AllowDegraded: o.AllowDegraded, Cache: o.Cache, Wait: duration(o.Wait), Policy: policyText(o.Policy),
		GrantSyscalls: o.Grants.Syscalls, GrantAddresses: o.Grants.Addresses,
	}
	if err := ofHost(o); err != nil {
		return s, err
	}
	if o.Wait < 0 {
		s.Wait = forever.String()
	}
	if o.Memory > 0 {
		s.Memory = strconv.FormatInt(o.Memory, 10)
	}
	if o.OutputLimit > 0 {
		s.OutputLimit = strconv.FormatInt(o.OutputLimit, 10)
	}
	var err error
	if s.Env, err = variables(o.Env); err != nil {
		return s, err
	}
	s.Credentials, err = e.credentials(ctx, o.Network.Credentials)
	return s, err
}

// ofHost refuses options that name something of the daemon's host.
func ofHost(o api.RunOptions) error {
	if o.Runtime != "" && o.Runtime != api.RuntimeNative {
		return refuse("--runtime")
	}
	var pinned api.Texts
	if o.Policy != nil {
		pinned = o.Policy.Resolve // the registries of this machine's tools: not sent
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"--ro", len(o.ReadOnly) > 0},
		{"--grant-path", len(o.Grants.Paths) > 0},
		{"--grant-env", len(o.Grants.Env) > 0},
		{"--resolve", slices.ContainsFunc(o.Network.Resolve, func(pin string) bool { return !slices.Contains(pinned, pin) })},
		{"--ca", len(o.Network.CA) > 0},
	} {
		if flag.given {
			return refuse(flag.name)
		}
	}
	return nil
}

// policyText returns a policy as the API takes it: the name of a preset, which the
// daemon then fills in for its own host, or the text.
func policyText(f *api.PolicyFile) string {
	if f == nil {
		return ""
	}
	if name, ok := strings.CutPrefix(string(f.Name), "preset "); ok && f.Path == "" {
		return name
	}
	return string(f.Text) + "\n"
}

// variables returns variables of the form K=V by their names. The last one of a name
// counts.
func variables(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no variables
	}
	vars := map[string]string{}
	for _, kv := range list {
		name, value, _ := strings.Cut(kv, "=")
		if !utf8.ValidString(kv) {
			return nil, checkSupported("", "the variable %s is not UTF-8", quote.Arg(name))
		}
		vars[name] = value
	}
	return vars, nil
}

// credentials reads the values of credentials from the caller's own sources. A name
// alone stands for a line of the daemon's credentials file.
func (e *Engine) credentials(ctx context.Context, list []string) (map[string]api.CredentialValue, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no credentials
	}
	reader := e.caller.Reader()
	values := map[string]api.CredentialValue{}
	for _, text := range list {
		if credential.IsName(text) {
			values[text] = api.CredentialValue{Name: text}
			continue
		}
		a, err := credential.ParseAssignment(text)
		if err != nil {
			return nil, api.Usagef("write it as NAME=env:VAR, NAME=file:PATH or NAME", "--credential: %v", err)
		}
		v, err := reader.Read(ctx, a.Source)
		if err != nil {
			return nil, &api.Error{Kind: api.Usage, Code: api.CodeCredential, Message: "credential " + a.Name + ": " + err.Error(), Err: err}
		}
		values[a.Name] = api.CredentialValue{Value: string(v.HandOver())}
	}
	return values, nil
}
