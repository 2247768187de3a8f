package engine

import (
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/policy"
)

func parsedPolicy(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := caller.Caller{}.ParsePolicy(api.PolicyFile{Name: "p", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSameElsewhere(t *testing.T) {
	t.Parallel()
	const curlHost = `version: 1
network_policies:
  api:
    endpoints: [{ host: api.example, port: 443, path: "/v1/**", protocol: rest, access: read-only, allowed_ips: [10.0.0.1] }]
    binaries: [{ path: /usr/bin/curl }]
`
	old := parsedPolicy(t, "version: 1\nlimits: {pids: 10}\n")
	for text, ok := range map[string]bool{
		curlHost + "limits: {pids: 10}\n": true,
		curlHost:                          false,
		"version: 1\nlimits: {pids: 10}\nenvironment: {set: {A: \"1\"}}\n":       false,
		"version: 1\nlimits: {pids: 10}\nfilesystem_policy: {read_only: [/usr]}": false,
	} {
		err := checkFixedParts(old, parsedPolicy(t, text))
		if (err == nil) != ok || err != nil && api.KindOf(err) != api.Refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}
