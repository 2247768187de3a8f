package policy_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/policy"
)

// needsGrant are the keys of a policy that reach beyond it: to the host, to a control of
// the cell, to secrets. What grants them is the operator's.
var needsGrant = map[string]string{
	"Process.AllowSyscalls":                    "--grant-syscall",
	"Network.Endpoints.AllowedIPs":             "--grant-address, if an address is not public",
	"Network.Endpoints.Host":                   "--grant-address, if it is an address that is not public",
	"Landlock":                                 "--allow-degraded, for best_effort",
	"Filesystem.ReadOnly":                      "--grant-path, outside the system's directories",
	"Filesystem.ReadWrite":                     "--grant-path",
	"Environment.Inherit":                      "--grant-env, but for harmless names",
	"Credentials.Name":                         "a line of the operator's credentials file, or --credential",
	"Credentials.Endpoints.Host":               "the hosts of that line",
	"Credentials.Endpoints.Ports":              "the ports of that line",
	"Credentials.Endpoints.Path":               "that line",
	"Network.Endpoints.Signing":                "the credential that signs",
	"Network.Endpoints.SigningRegion":          "the credential that signs",
	"Network.Endpoints.SigningService":         "the credential that signs",
	"Network.Endpoints.RequestBodyRewrite":     "the credential that is put in",
	"Network.Endpoints.WebsocketRewrite":       "the credential that is put in",
	"Network.Endpoints.UninspectedCredentials": "the credential that is sent",
}

// bySelf are the keys that are what a policy is for: they open one rule of the network,
// say how it is inspected, or limit the cell. Under a ceiling both must allow.
var bySelf = strings.Fields(`
	Credentials.ExposeAs Credentials.Format Credentials.Header Credentials.KeepInBody Credentials.ReplaceInBody
	Credentials.ReplaceInHeaders Credentials.ReplaceInQuery
	Environment.Set.Name Environment.Set.Value Filesystem.Given Filesystem.IncludeWorkdir
	Limits.CPUs Limits.Disk Limits.Memory Limits.OpenFiles Limits.Output Limits.PIDs Limits.WallTime
	Network.Binaries Network.Key Network.Name
	Network.Endpoints.Access Network.Endpoints.AllowEncodedSlash Network.Endpoints.Enforcement Network.Endpoints.MaxBody
	Network.Endpoints.MCP.AllMethods Network.Endpoints.MCP.LooseToolNames Network.Endpoints.Path Network.Endpoints.Ports
	Network.Endpoints.Protocol Network.Endpoints.RegisteredQueries Network.Endpoints.TLS
	Network.Endpoints.PersistedQueries.Fields Network.Endpoints.PersistedQueries.ID
	Network.Endpoints.PersistedQueries.Operation Network.Endpoints.PersistedQueries.OperationName
	Network.Endpoints.Rules Network.Endpoints.DenyRules
	Process.RunAsGroup Process.RunAsUser
`)

// TestEveryKeyIsWeighed: each key of a policy needs a grant of the operator, or says here
// that it needs none.
func TestEveryKeyIsWeighed(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for key := range needsGrant {
		known[key] = false
	}
	for _, key := range bySelf {
		if _, both := known[key]; both {
			t.Errorf("%s is in both lists", key)
		}
		known[key] = false
	}
	for _, key := range keys(reflect.TypeFor[policy.Policy](), nil) {
		if strings.HasPrefix(key, "Ceilings.") {
			continue // what stands there only takes away from what Network allows
		}
		if _, found := known[key]; !found {
			t.Errorf("%s: say which grant of the operator it needs, or that it needs none", key)
		}
		known[key] = true
	}
	for key, found := range known {
		if !found {
			t.Errorf("no policy has the key %s", key)
		}
	}
}

// keys lists the keys of a policy. The parts of a request that a rule describes are one.
func keys(t reflect.Type, path []string) (list []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	name := strings.Join(path, ".")
	inside := t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[policy.Policy]().PkgPath()
	if !inside || strings.HasSuffix(name, "Rules") {
		return []string{name}
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() {
			list = append(list, keys(f.Type, append(path[:len(path):len(path)], f.Name))...)
		}
	}
	return list
}
