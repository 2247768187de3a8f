package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxEnvFile bounds what is read as an environment file.
const maxEnvFile = 1 << 20

// credentialsFile returns the path of the operator's sources of credentials, for
// credentials without a --credential flag.
func credentialsFile() api.Text { return api.Text(configFile("credentials")) }

// configFile returns the path of a file in the operator's configuration directory.
// The file need not exist.
func configFile(name string) string {
	dir := configDir()
	if dir == "" {
		return ""
	}
	return dir + "/" + name
}

// configDir returns the operator's configuration directory; "" if there is none.
func configDir() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return dir + "/forkcell"
}

// caches returns the values of --cache.
func caches() []string { return []string{api.CacheOff, api.CacheStandard} }

func addCacheFlag(f *pflag.FlagSet, to *string, unless string) {
	f.StringVar(to, "cache", "", "build and package caches in the cell that start from the shared ones: `off|standard`"+unless)
}

func addGrantAddressFlag(f *pflag.FlagSet, to *[]string) {
	f.StringArrayVar(to, "grant-address", nil, "let the policy allow connections to these private addresses, a `CIDR` such as 10.0.5.0/24 (repeatable)")
}

func addRuntimeFlag(f *pflag.FlagSet, to *string, unless string) {
	f.StringVar(to, "runtime", "", "isolate commands with this runtime: `native|gvisor|microvm`; doctor shows which work here"+unless)
}

func checkRuntime(cmd *cobra.Command, value string) error {
	if value == "" && !cmd.Flags().Changed("runtime") {
		return nil
	}
	return oneOf(cmd, "runtime", value, engine.Runtimes()...)
}

func checkCache(cmd *cobra.Command, value string) error {
	if value == "" && !cmd.Flags().Changed("cache") {
		return nil
	}
	return oneOf(cmd, "cache", value, caches()...)
}

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

// parseEnv reads KEY=VALUE lines. Values are literal: no quotes, no expansion.
// Empty lines and lines that start with # are skipped.
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
