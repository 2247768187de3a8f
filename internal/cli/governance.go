package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/policy"
)

// governance are the flags that say what a cell's commands may do and use.
type governance struct {
	policy        string
	memory        amount
	cpus          amount
	pids          amount
	allowDegraded bool
	grantPaths    []string
	grantEnv      []string
}

func (g *governance) addFlags(f *pflag.FlagSet) {
	g.memory = amount{kind: "SIZE", parse: policy.ParseSize}
	g.cpus = amount{kind: "N", parse: policy.ParseCPUs}
	g.pids = amount{kind: "N", parse: policy.ParsePIDs}
	f.StringVar(&g.policy, "policy", "", "use the policy `FILE` instead of the cell's; a preset's name works too")
	f.Var(&g.memory, "memory", "limit memory, swap included, such as 2GiB")
	f.Var(&g.cpus, "cpus", "limit processor time to so many processors, such as 1.5")
	f.Var(&g.pids, "pids", "limit the number of processes and threads")
	f.StringArrayVar(&g.grantPaths, "grant-path", nil, "let the policy show this host `PATH[:ro|rw]` and everything below it (repeatable; secret files stay hidden)")
	f.StringArrayVar(&g.grantEnv, "grant-env", nil, "let the policy pass on the variable `NAME` (repeatable)")
	f.BoolVar(&g.allowDegraded, "allow-degraded", false, "run even if a control cannot be enforced, and record that")
}

// fill puts the flags into a request. They only ever narrow what the policy
// allows.
func (g *governance) fill(cmd *cobra.Command, req *cell.RunRequest) error {
	req.Memory, req.CPUs, req.PIDs = g.memory.value, g.cpus.value, g.pids.value
	req.AllowDegraded, req.Inherit = g.allowDegraded, os.LookupEnv
	req.Grants = cell.GrantRequest{Paths: g.grantPaths, Env: g.grantEnv, ConfigFile: configFile("config.yaml")}
	if err := inBounds(cmd, req); err != nil {
		return err
	}
	if !cmd.Flags().Changed("policy") {
		return nil
	}
	var err error
	req.Policy, err = readPolicy(verb(cmd), g.policy)
	return err
}

// inBounds checks the limits by the language's own bounds: the policy that a run
// is recorded with has them in it, and must be valid.
func inBounds(cmd *cobra.Command, req *cell.RunRequest) error {
	p := policy.Default()
	p.Limits = policy.Limits{Memory: req.Memory, CPUs: req.CPUs, PIDs: req.PIDs, WallTime: req.Timeout}
	if p.Limits == (policy.Limits{}) {
		return nil
	}
	_, err := policy.Parse("flags", p.Canonical(), policy.Options{})
	bad, ok := errors.AsType[*policy.Error](err)
	if !ok {
		return err
	}
	first := bad.Problems[0]
	for _, flag := range []struct{ key, name string }{{"limits.memory", "memory"}, {"limits.wall_time", "timeout"}} {
		if first.Path == flag.key {
			return usageError("", "%s: bad value for --%s: %s", verb(cmd), flag.name, first.Message)
		}
	}
	return usageError("", "%s: %s", verb(cmd), first.Message)
}

// amount is a flag's value that the policy language reads too.
type amount struct {
	kind  string
	parse func(string) (int64, error)
	text  string
	value int64
}

func (a *amount) String() string { return a.text }

func (a *amount) Set(text string) error {
	v, err := a.parse(text)
	if err == nil {
		a.text, a.value = text, v
	}
	return err
}

func (a *amount) Type() string { return a.kind }
