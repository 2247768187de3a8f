package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/quote"
)

// maxEnvFile bounds what is read as an environment file.
const maxEnvFile = 1 << 20

// maxCA bounds what is read as a file of certificates.
const maxCA = 4 << 20

// networkFlags are what the operator grants to a network.
type networkFlags struct {
	credentials []string
	resolve     []string
	ca          string
}

func (o *networkFlags) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.credentials, "credential", nil, "take the value of a policy's credential from `NAME=SOURCE`: env:VAR, file:PATH or command:[\"ARGV\"]; NAME alone lets the run use a line of the credentials file that names no host (repeatable)")
	f.StringArrayVar(&o.resolve, "resolve", nil, "pin `HOST[:PORT]=IP[:PORT]`, which may be loopback or private (repeatable)")
	f.StringVar(&o.ca, "ca", "", "also trust the certificates in this `FILE` when connecting to servers")
}

func (o *networkFlags) request(cmd *cobra.Command, p *cell.PolicyFile) (cell.NetworkRequest, error) {
	req := cell.NetworkRequest{Credentials: o.credentials, CredentialsFile: credentialsFile(), Resolve: o.resolve}
	if p != nil {
		req.Resolve = withPins(o.resolve, p.Resolve)
	}
	if o.ca == "" {
		return req, nil
	}
	var err error
	if req.CA, err = readBounded(o.ca, maxCA); err != nil {
		return req, usageError("", "%s: --ca %s: %v", verb(cmd), quote.Path(o.ca), err)
	}
	if len(req.CA) == 0 {
		return req, usageError("give a file with certificates as PEM", "%s: --ca %s: the file is empty", verb(cmd), quote.Path(o.ca))
	}
	return req, nil
}

// withPins adds the pins of a preset for hosts that no flag pins.
func withPins(flags, pins []string) []string {
	out := slices.Clone(flags)
	for _, pin := range pins {
		from, _, _ := strings.Cut(pin, "=")
		host, _, _ := strings.Cut(from, ":")
		if !slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, from+"=") || strings.HasPrefix(f, host+"=") }) {
			out = append(out, pin)
		}
	}
	return out
}

// credentialsFile is where the operator's own sources of credentials are, for
// whatever no --credential is given for.
func credentialsFile() string { return configFile("credentials") }

// configFile is the path of a file in the operator's configuration directory. It
// need not exist.
func configFile(name string) string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return dir + "/forkcell/" + name
}

// rootChoice is the system that a cell sees, and who the command is in it.
type rootChoice struct {
	root   string
	asRoot bool
}

func (o *rootChoice) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.root, "root", "", "the `SYSTEM` that the cell sees: host (read-only; the default), host-overlay (writable, as part of the state), or a directory")
	f.BoolVar(&o.asRoot, "as-root", false, "run as root in the cell, without rights on the host; needs --root host-overlay")
}

// cacheChoice is whether the tools in a cell keep their caches in its state, and
// start from the shared ones.
type cacheChoice string

// caches are the values of --cache.
func caches() []string { return []string{cell.CacheOff, cell.CacheStandard} }

func (o *cacheChoice) addFlags(f *pflag.FlagSet, unless string) {
	f.StringVar((*string)(o), "cache", "", "build and package caches in the cell that start from the shared ones: `off|standard`"+unless)
}

func (o cacheChoice) check(cmd *cobra.Command) error {
	if o == "" && !cmd.Flags().Changed("cache") {
		return nil
	}
	return oneOf(cmd, "cache", string(o), caches()...)
}

// asTheCell is the default of --cache: as the cell was made.
const asTheCell = " (default: as the cell was made)"

// environment collects the command's variables: files first, flags over them.
func environment(cmd *cobra.Command, files, flags []string) ([]string, error) {
	var env []string
	for _, name := range files {
		lines, err := readEnvFile(name)
		if err != nil {
			return nil, usageError("", "%s: --env-file %s: %v", verb(cmd), quote.Path(name), err)
		}
		env = append(env, lines...)
	}
	for _, kv := range flags {
		if err := checkVariable(kv); err != nil {
			hint := "write --env NAME=VALUE"
			if !strings.Contains(kv, "=") && kv != "" {
				arg := quote.Arg(kv)
				hint = fmt.Sprintf(`nothing is inherited: write --env %s="$%s"`, arg, arg)
			}
			return nil, usageError(hint, "%s: --env %s: %v", verb(cmd), quote.Arg(kv), err)
		}
		env = append(env, kv)
	}
	return env, nil
}

func checkVariable(kv string) error {
	name, _, ok := strings.Cut(kv, "=")
	switch {
	case !ok:
		return errors.New("no value")
	case name == "":
		return errors.New("no name")
	case strings.ContainsRune(kv, 0):
		return errors.New("holds a NUL byte")
	}
	return nil
}

func readEnvFile(name string) ([]string, error) {
	data, err := readBounded(name, maxEnvFile)
	if err != nil {
		return nil, err
	}
	return parseEnv(data)
}

// parseEnv reads KEY=VALUE lines. Values are taken as they stand: no quotes, no
// expansion. Empty lines and lines that start with # are skipped.
func parseEnv(data []byte) ([]string, error) {
	var env []string
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, maxEnvFile+1)
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimLeft(scan.Text(), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		if err := checkVariable(line); err != nil {
			return nil, fmt.Errorf("line %d: %w; want KEY=VALUE", n, err)
		}
		env = append(env, line)
	}
	return env, scan.Err()
}
