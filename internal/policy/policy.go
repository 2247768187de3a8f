package policy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// Policy is a valid policy. The zero value of a section means that it was not
// given, except for sections whose defaults Default fills in.
type Policy struct {
	Filesystem  Filesystem
	Landlock    Landlock
	Process     Process
	Limits      Limits
	Environment Environment
	// Network is sorted by key.
	Network []NetworkPolicy
	// Ceilings are lists like Network: what Network allows, each of them must allow too.
	// They are not empty, and the canonical text of a policy
	// without Network leaves them out.
	Ceilings [][]NetworkPolicy
	// Credentials are sorted by name.
	Credentials []Credential
}

// Default returns the policy of a run without one: no network, no credentials,
// no limits, the workspace writable, the system read-only, the rest absent.
func Default() *Policy {
	return &Policy{
		Filesystem: Filesystem{IncludeWorkdir: true},
		Process:    Process{RunAsUser: Sandbox, RunAsGroup: Sandbox},
	}
}

// Sandbox is the name of a cell's user and of its group.
const Sandbox = "sandbox"

// NamesPrograms reports whether the policy allows connections to some programs only.
func (p *Policy) NamesPrograms() bool {
	return slices.ContainsFunc(p.AllNetwork(), func(n NetworkPolicy) bool {
		return !slices.ContainsFunc(n.Binaries, match.Path.Any)
	})
}

// NeedsNetwork reports whether the policy allows connections, which need
// egress.
func (p *Policy) NeedsNetwork() bool { return len(p.Network) > 0 }

// NeedsCredentials reports whether the policy names credentials or signs
// requests with one, which needs egress.
func (p *Policy) NeedsCredentials() bool {
	for _, n := range p.Network {
		for _, e := range n.Endpoints {
			if e.Signing != SigningNone {
				return true
			}
		}
	}
	return len(p.Credentials) > 0
}

// Filesystem lists the paths in a cell besides those that every cell has.
type Filesystem struct {
	// Given is false where the default lists apply (see DefaultReadOnly).
	Given bool
	// IncludeWorkdir reports that the workspace is mounted, read-write.
	IncludeWorkdir bool
	// ReadOnly and ReadWrite are clean absolute paths of the host, sorted. They
	// do not contain the paths that every cell has (/proc, /tmp, /dev/null,
	// ...).
	ReadOnly, ReadWrite []string
}

// Landlock says what to do on a kernel that lacks a required part.
type Landlock int

// LandlockDefault and HardRequirement refuse the run; BestEffort runs, and records what
// is missing. A runtime that has no Landlock for its commands refuses HardRequirement
// only, which a policy has to write.
const (
	LandlockDefault Landlock = iota
	HardRequirement
	BestEffort
)

// Process is the user of the command and the system calls that it may use in
// addition.
type Process struct {
	// RunAsUser and RunAsGroup are names of the cell or decimal numbers, never
	// root or 0.
	RunAsUser, RunAsGroup string
	// AllowSyscalls are names taken out of the deny set, sorted. Each counts as
	// a degradation.
	AllowSyscalls []string
}

// Limits bound what a run may use. Zero means no limit.
type Limits struct {
	// Memory, Disk and Output are bytes.
	Memory, Disk, Output int64
	// CPUs are thousandths of one processor.
	CPUs            int64
	PIDs, OpenFiles int64
	WallTime        time.Duration
}

// Environment lists the variables that the command gets besides the cell's own.
type Environment struct {
	// Inherit are names, sorted; nothing else comes from the caller.
	Inherit []string
	// Set is sorted by name.
	Set []Variable
}

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// NetworkPolicy lets each of its binaries reach each of its endpoints.
type NetworkPolicy struct {
	// Key names the policy in the file, Name in events; they are mostly equal.
	Key, Name string
	Endpoints []Endpoint
	// Binaries is never empty.
	Binaries []match.Path
}

// Endpoint is a part of a host that connections may go to, and the requests
// that are allowed there.
type Endpoint struct {
	Host match.Host
	// Ports is sorted and never empty.
	Ports []uint16
	// Path is the part of the host that the endpoint applies to. It is the zero
	// Path for tcp, where paths are not read.
	Path        match.Path
	Protocol    Protocol
	Enforcement Enforcement
	TLS         TLS
	// Access is a preset of rules; an endpoint has either a preset or rules.
	Access Access
	Rules  []Rule
	// DenyRules win over everything.
	DenyRules []Rule
	// AllowedIPs are the addresses that the host may resolve to, instead of
	// public ones only. Sorted.
	AllowedIPs        []netip.Prefix
	AllowEncodedSlash bool

	// MaxBody bounds the request bodies that graphql, mcp and json-rpc parse.
	MaxBody int64
	// RegisteredQueries reports that persisted queries are allowed if they are
	// in PersistedQueries; otherwise none are.
	RegisteredQueries bool
	// PersistedQueries is sorted by ID.
	PersistedQueries []PersistedQuery
	MCP              MCP

	Signing                       Signing
	SigningService, SigningRegion string

	// The following are OpenShell's and allow nothing more here: bodies and
	// messages are rewritten only for credentials with ReplaceInBody, and
	// credentials are sent only where requests are inspected.
	RequestBodyRewrite, WebsocketRewrite, UninspectedCredentials bool
}

// PersistedQuery is the meaning of a registered hash or id of a GraphQL query.
type PersistedQuery struct {
	ID            string
	Operation     Operation
	OperationName string
	Fields        []string
}

// MCP are the settings of an endpoint with that protocol.
type MCP struct {
	// LooseToolNames lets tools have names outside [A-Za-z0-9_.-]{1,128}.
	LooseToolNames bool
	// AllMethods allows every method that the MCP specification knows.
	AllMethods bool
}

// Rule allows or denies requests. Which fields it has depends on the endpoint's
// protocol; a zero field matches everything.
type Rule struct {
	// Method, Path and Query are those of a request. Method WEBSOCKET_TEXT
	// stands for text messages of a websocket.
	Method match.Method
	Path   match.Path
	// Query is sorted by key.
	Query []QueryMatch

	Operation     Operation
	OperationName match.Text
	Fields        []match.Text

	// Call is the method of mcp, json-rpc and grpc, Service that of grpc.
	Call    match.Text
	Service match.Text
	// Tools are alternatives.
	Tools []match.Text
}

// QueryMatch matches one key of a query. An allow rule requires the key, and
// every value of it must match one of Any; a deny rule matches if one value
// does.
type QueryMatch struct {
	Key string
	Any []match.Text
}

// Credential is the name of a secret, where it may go, and how.
type Credential struct {
	Name      string
	Endpoints []CredentialEndpoint
	// Header, if given, is set on every request to the endpoints, to Format
	// with the value in place of "{value}".
	Header, Format string
	// ExposeAs, if given, is the variable that holds a placeholder in the cell.
	ExposeAs string
	// ReplaceInHeaders are the headers, in canonical form and sorted, in which a
	// placeholder is replaced: where it is the whole value, stands behind a scheme, or
	// is the user or password of basic authentication.
	ReplaceInHeaders []string
	// ReplaceInQuery are the parameters of the query, sorted, in which it is replaced:
	// where it is the whole value.
	ReplaceInQuery []string
	// ReplaceInBody replaces placeholders in bodies and messages too.
	ReplaceInBody bool
	// KeepInBody leaves placeholders in bodies and messages as they are. Without it, and
	// where they are not replaced, the request is denied.
	KeepInBody bool
}

// CredentialEndpoint is a place that a credential may be sent to.
type CredentialEndpoint struct {
	Host  match.Host
	Ports []uint16
	Path  match.Path
}
