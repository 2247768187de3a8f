package rest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/preset"
)

// settings are the options of a run or a start, and the values of credentials that
// came with them, as variables of the caller.
type settings struct {
	options api.RunOptions
	env     []string
}

// runSettings checks the settings of a body.
func (s *Server) runSettings(ctx context.Context, c *call, b api.RunSettings) (settings, error) {
	var out settings
	o := &out.options
	o.Workdir, o.Root, o.AsRoot, o.AllowDegraded, o.Cache = api.Text(b.Workdir), api.Text(b.Root), b.AsRoot, b.AllowDegraded, b.Cache
	o.PIDs = b.PIDs
	var err error
	if o.Env, err = environment(b.Env); err != nil {
		return out, err
	}
	if o.Timeout, err = duration("timeout", b.Timeout); err != nil {
		return out, err
	}
	if o.Wait, err = duration("wait", b.Wait); err != nil {
		return out, err
	}
	if b.Memory != "" {
		if o.Memory, err = policy.ParseSize(b.Memory); err != nil {
			return out, api.Usagef("write it as 512MiB", "memory: %v", err)
		}
	}
	if o.OutputLimit, err = outputLimit(b.OutputLimit); err != nil {
		return out, err
	}
	if b.CPUs != 0 {
		if o.CPUs, err = policy.ParseCPUs(strconv.FormatFloat(b.CPUs, 'f', -1, 64)); err != nil {
			return out, api.Usagef("", "cpus: %v", err)
		}
	}
	if o.Policy, err = s.policyFile(ctx, b.Policy); err != nil {
		return out, err
	}
	o.Network.CredentialsFile = s.config.CredentialsFile
	if c.caller.isOperator() {
		o.Grants.Syscalls, o.Grants.Addresses = b.GrantSyscalls, b.GrantAddresses // what others send, their ceiling grants
	}
	if c.caller.local {
		o.Grants.ConfigFile = s.config.GrantsFile
	}
	return out, out.addCredentials(c, b.Credentials)
}

// outputLimit reads how much of each stream of a run is to be stored.
func outputLimit(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := policy.ParseSize(text)
	if err != nil {
		return 0, api.Usagef("write it as 1MiB", "output_limit: %v", err)
	}
	return n, nil
}

// environment returns the variables of a body, as K=V.
func environment(vars map[string]string) (env api.Texts, err error) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(vars[name], 0) {
			return nil, api.Usagef("", "env: bad variable %q", name)
		}
		env = append(env, name+"="+vars[name])
	}
	return env, nil
}

// addCredentials turns values of a request into variables that only the credentials
// use, and names into lines of the operator's file. Sources that would read the
// daemon's own environment or run its commands do not exist here.
func (o *settings) addCredentials(c *call, given map[string]api.CredentialValue) error {
	for i, name := range slices.Sorted(maps.Keys(given)) {
		v := given[name]
		switch {
		case strings.ContainsAny(name, "=\x00") || name == "":
			return api.Usagef("", "credentials: bad name %q", name)
		case (v.Value == "") == (v.Name == ""):
			return api.Usagef(`send {"value":"..."} or {"name":"..."}`, "credentials: %s needs either a value or a name", name)
		case v.Name != "" && v.Name != name:
			return api.Usagef("use the name of the credential", "credentials: %s cannot take the value of %s", name, v.Name)
		case v.Name != "" && !c.caller.mayUse(name):
			return api.Refusef(api.CodeForbidden, "`forkcell token create --credential "+name+"` makes a token that may",
				"credentials: the token may not use %s of the credentials file", name)
		case v.Name != "":
			o.options.Network.Credentials = append(o.options.Network.Credentials, name)
		default:
			variable := fmt.Sprintf("FORKCELL_REQUEST_CREDENTIAL_%d", i+1)
			o.env = append(o.env, variable+"="+v.Value)
			o.options.Network.Credentials = append(o.options.Network.Credentials, name+"=env:"+variable)
		}
	}
	return nil
}

// policyFile returns the policy of a body: the name of a preset, or a policy's text.
// It is nil for none.
func (s *Server) policyFile(ctx context.Context, text string) (file *api.PolicyFile, err error) {
	switch {
	case text == "":
		return file, nil
	case preset.Known(text):
		// The registries of the daemon's own tools are not the caller's.
		body, _ := preset.Text(ctx, text, s.config.Agents.Tools, s.config.Agents.Closed)
		return &api.PolicyFile{Name: api.Text("preset " + text), Text: body}, nil
	case !strings.Contains(text, "\n") && !strings.Contains(text, ":"):
		return nil, api.Usagef("/v1/policies lists the presets; else send the text of a policy", "no such policy: %q", text)
	}
	return &api.PolicyFile{Name: "policy", Text: []byte(text)}, nil
}

// duration reads a duration of a body; "" is 0.
func duration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, api.Usagef("write it as 90s or 1h30m", "%s: bad duration %q", field, text)
	}
	return d, nil
}
