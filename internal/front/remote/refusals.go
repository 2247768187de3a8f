package remote

import (
	"slices"

	"github.com/forkcell/forkcell/internal/api"
)

// refusal is something of the command line that is not done through a daemon.
type refusal struct{ what, why, instead string }

// refusals lists the options that are not sent to a daemon. docs/reference/api.md has the
// table.
func refusals() []refusal {
	const onHost = "use it on the machine of the daemon"
	return []refusal{
		{"--ro", "names a directory of the daemon's host, which a daemon does not show to its callers", "send the files with init or cp, or " + onHost},
		{"--grant-path", "lets a cell use a path of the daemon's host, which its operator grants", "the operator puts it under grants in config.yaml, which count for callers over the socket"},
		{"--grant-env", "passes a variable of the daemon's environment, which is never a caller's", "--env NAME=VALUE sends a value"},
		{"--resolve", "replaces the addresses that the daemon's host finds for a name, which a caller may not", "use allowed_ips in the policy with --grant-address, or " + onHost},
		{"--ca", "names an authority that the daemon itself would trust, which a caller may not", "the operator adds it to the certificates of the daemon's host"},
		{"--unrestricted", "lets a session reach every host, which only the operator on the daemon's host may allow", "list the hosts with --policy, or " + onHost},
		{"--injection-policy", "names a file of the operator with sources of credentials", "the daemon uses its operator's; --credential NAME=SOURCE sends a value of yours"},
		{"--runtime", "is fixed by the daemon when a cell is made", "give it to init"},
		{"init --cache", "shares files of other cells, which their operator promotes", onHost},
		{"init --no-default-excludes", "would send secrets of this machine", "rename the files that are needed, or copy them with cp"},
		{"export --with-memory", "would send the key of the cell's certificate authority, and secrets that its programs had", onHost + ", without --url and FORKCELL_URL"},
		{"policy apply --credential", "is for a live cell of this machine", "give --credential to start"},
		{"policy apply --grant-address", "is for a live cell of this machine", "give --grant-address to start"},
		{"policy explain --body", "is not part of the API, like --header", "leave them out, or explain a policy file without --url"},
	}
}

// refuse refuses an option by the table.
func refuse(what string) error {
	list := refusals()
	r := list[slices.IndexFunc(list, func(r refusal) bool { return r.what == what })]
	return checkSupported(r.instead, "%s %s", r.what, r.why)
}

// checkSupported refuses what the API cannot do.
func checkSupported(hint, format string, args ...any) error {
	return api.Refusef(api.CodeUnsupported, hint, format, args...)
}
