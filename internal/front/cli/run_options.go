package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxCA bounds what is read as a file of certificates.
const maxCA = 4 << 20

// optionFlags are the flags that run and start share. Most write to the options
// themselves; the others name files, which resolve reads.
type optionFlags struct {
	api.RunOptions

	envFile []string
	policy  string
	ca      string
}

// optionTexts are the descriptions that differ between run and start.
type optionTexts struct{ timeout, workdir string }

func (o *optionFlags) addFlags(f *pflag.FlagSet, text optionTexts) {
	f.Var((*duration)(&o.Timeout), "timeout", text.timeout)
	f.StringArrayVar((*[]string)(&o.Env), "env", nil, "set the variable `K=V` in the cell (repeatable)")
	f.StringArrayVar(&o.envFile, "env-file", nil, "set variables from the K=V lines of a `FILE` (repeatable)")
	f.StringVar((*string)(&o.Workdir), "workdir", "", text.workdir)
	f.StringArrayVar((*[]string)(&o.ReadOnly), "ro", nil, "show this host `PATH` read-only in the cell (repeatable)")
	f.Var((*waiting)(&o.Wait), "wait", "wait for a busy cell, without a limit or this long (--wait=30s)")
	f.Lookup("wait").NoOptDefVal = forever
	f.StringVar((*string)(&o.Root), "root", "", "the `SYSTEM` that the cell sees: host (read-only; the default), host-overlay (writable, as part of the state), or a directory")
	f.BoolVar(&o.AsRoot, "as-root", false, "run as root in the cell, without rights on the host; needs --root host-overlay")
	addCacheFlag(f, &o.Cache, " (default: as the cell was made)")
	addRuntimeFlag(f, &o.Runtime, " (default: that of the cell)")
	f.StringVar(&o.policy, "policy", "", "use the policy `FILE` instead of the cell's; a preset's name works too")
	f.Var(&amount{value: &o.Memory, kind: "SIZE", parse: policy.ParseSize}, "memory", "limit memory, swap included, such as 2GiB")
	f.Var(&amount{value: &o.CPUs, kind: "N", parse: policy.ParseCPUs}, "cpus", "limit processor time to so many processors, such as 1.5")
	f.Var(&amount{value: &o.PIDs, kind: "N", parse: policy.ParsePIDs}, "pids", "limit the number of processes and threads")
	f.Var(&amount{value: &o.OutputLimit, kind: "SIZE", parse: policy.ParseSize}, "output-limit", "keep at most so much of stdout and of stderr, such as 1GiB (default 64MiB; the policy can lower it); what is shown is never cut")
	f.StringArrayVar((*[]string)(&o.Grants.Paths), "grant-path", nil, "let the policy show this host `PATH[:ro|rw]` and everything below it (repeatable; secret files stay hidden)")
	f.StringArrayVar((*[]string)(&o.Grants.Env), "grant-env", nil, "let the policy pass on the variable `NAME` (repeatable)")
	f.StringArrayVar(&o.Grants.Syscalls, "grant-syscall", nil, "let the policy allow the system call `NAME`, which cells are denied (repeatable)")
	addGrantAddressFlag(f, &o.Grants.Addresses)
	f.BoolVar(&o.AllowDegraded, "allow-degraded", false, "run even if a control cannot be enforced, and record that")
	f.StringArrayVar((*[]string)(&o.Network.Credentials), "credential", nil, "take the value of a policy's credential from `NAME=SOURCE`: env:VAR, file:PATH, json:PATH#KEY.KEY or command:[\"ARGV\"]; NAME alone lets the run use a line of the credentials file that names no host (repeatable)")
	f.StringArrayVar((*[]string)(&o.Network.Resolve), "resolve", nil, "pin `HOST[:PORT]=IP[:PORT]`, which may be loopback or private (repeatable)")
	f.StringVar(&o.ca, "ca", "", "also trust the certificates in this `FILE` when connecting to servers")
}

// resolve checks the flags, reads the files that they name, and returns the options.
func (o *optionFlags) resolve(cmd *cobra.Command, s *frame) (api.RunOptions, error) {
	out := o.RunOptions
	out.Grants.ConfigFile = api.Text(configFile("config.yaml"))
	out.Network.CredentialsFile = credentialsFile()
	if err := errors.Join(checkCache(cmd, o.Cache), checkRuntime(cmd, o.Runtime)); err != nil {
		return out, err
	}
	if err := inBounds(cmd, out); err != nil {
		return out, err
	}
	var err error
	if cmd.Flags().Changed("policy") {
		if out.Policy, err = s.readPolicy(verb(cmd), o.policy); err != nil {
			return out, err
		}
		out.Network.Resolve = engine.WithPins(o.Network.Resolve, out.Policy.Resolve)
	}
	if o.ca != "" {
		if out.Network.CA, err = readCA(cmd, o.ca); err != nil {
			return out, err
		}
	}
	out.Env, err = environment(cmd, o.envFile, o.Env)
	return out, err
}

func readCA(cmd *cobra.Command, file string) ([]byte, error) {
	data, err := readBounded(file, maxCA)
	if err != nil {
		return nil, usageError("", "%s: --ca %s: %v", verb(cmd), quote.Path(file), err)
	}
	if len(data) == 0 {
		return nil, usageError("give a file with certificates as PEM", "%s: --ca %s: the file is empty", verb(cmd), quote.Path(file))
	}
	return data, nil
}

// inBounds checks the limits against the bounds of the policy language: they become
// part of the recorded policy, which must be valid.
func inBounds(cmd *cobra.Command, o api.RunOptions) error {
	p := policy.Default()
	p.Limits = policy.Limits{Memory: o.Memory, CPUs: o.CPUs, PIDs: o.PIDs, Output: o.OutputLimit, WallTime: o.Timeout}
	if p.Limits == (policy.Limits{}) {
		return nil
	}
	_, err := policy.Parse("flags", p.Canonical(), policy.Options{})
	bad, ok := errors.AsType[*policy.Error](err)
	if !ok {
		return err
	}
	first := bad.Problems[0]
	for _, flag := range []struct{ key, name string }{{"limits.memory", "memory"}, {"limits.wall_time", "timeout"}, {"limits.output", "output-limit"}} {
		if first.Path == flag.key {
			return usageError("", "%s: bad value for --%s: %s", verb(cmd), flag.name, first.Message)
		}
	}
	return usageError("", "%s: %s", verb(cmd), first.Message)
}

// amount is a flag's value in the syntax of the policy language.
type amount struct {
	value *int64
	kind  string
	parse func(string) (int64, error)
	text  string
}

func (a *amount) String() string { return a.text }

func (a *amount) Set(text string) error {
	v, err := a.parse(text)
	if err == nil {
		a.text, *a.value = text, v
	}
	return err
}

func (a *amount) Type() string { return a.kind }
