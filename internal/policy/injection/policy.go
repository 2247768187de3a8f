// Package injection reads injection policies: the operator's TOML file that says
// which credentials, instructions, keys and files an agent's session gets, and for
// which agents and modes. The format is Workcell's, with a few more keys.
//
// A policy is trusted because of where it is: only its owner can have written it.
// Load refuses a file that another user could change. Reading a policy reads no
// secret: a policy holds sources, not values.
//
// The package must not know cells, sessions, how a credential gets into a cell, or
// the command line.
package injection

import (
	"slices"
	"strings"
)

// Policy is an injection policy with its includes merged. Its paths are absolute.
type Policy struct {
	// Path is the file that was loaded.
	Path string
	// Sources are the files that were read, in the order of reading.
	Sources []File
	// Documents are instruction files by agent, or "common".
	Documents map[string]string
	// Credentials are the entries by key.
	Credentials map[string]Credential
	// SSH is nil if the policy has no such section.
	SSH *SSH
	// Copies are files that are copied into the cell's home.
	Copies []Copy
	// Network changes the endpoints of a session.
	Network Network
}

// File is a file that was read.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Selector restricts an entry to agents and modes. An empty list does not restrict.
type Selector struct {
	Agents []string
	Modes  []string
}

// Selects reports whether an entry applies to an agent in a mode.
func (s Selector) Selects(agent, mode string) bool {
	return (len(s.Agents) == 0 || slices.Contains(s.Agents, agent)) && (len(s.Modes) == 0 || slices.Contains(s.Modes, mode))
}

// Credential is the source of a credential.
type Credential struct {
	Selector

	Key string
	// File is the policy file that holds the entry.
	File string
	// Source is an absolute path, env:NAME or command:JSON; "" with a resolver.
	Source string
	// Resolver names the agent's own login on this host; "" with a source.
	Resolver string
	// WriteBack allows that a renewed login is written to the resolver's file.
	WriteBack bool
	// Copy allows that the value itself is copied into the cell.
	Copy bool
	// Scalar reports the short form, which has no selectors.
	Scalar bool
}

// Path returns the file of a credential whose source is one.
func (c Credential) Path() (string, bool) {
	return c.Source, strings.HasPrefix(c.Source, "/")
}

// SSH configures signing with the operator's keys.
type SSH struct {
	Selector

	Enabled    bool
	Config     string
	KnownHosts string
	// Identities are paths of private keys, and keys of the operator's agent as
	// agent:FINGERPRINT.
	Identities []string
	// Hosts are those to log in to. An empty list leaves it to the session's endpoints.
	Hosts             []SSHHost
	AllowUnsafeConfig bool
}

// SSHHost is a host to log in to.
type SSHHost struct {
	Endpoint

	// User is the one to log in as; "" is any.
	User string
}

// AgentPrefix begins an identity that is a key of the operator's agent.
const AgentPrefix = "agent:"

// Copy is a file that is copied into the cell's home.
type Copy struct {
	Selector

	Source string
	// Target is the path below the cell's home.
	Target string
	Secret bool
}

// Network lists endpoints that are added to and removed from a session's.
type Network struct {
	Allow, Deny []Endpoint
}

// Endpoint is a host, in canonical form, and a port.
type Endpoint struct {
	Host string
	Port uint16
}

// Vocabulary has the names that a policy may use.
type Vocabulary struct {
	// Agents are the values of providers.
	Agents []string
	// Keys are the credentials, each with the agents that use it.
	Keys map[string][]string
	// Restricted are keys whose entry must name its providers.
	Restricted []string
}

// Modes returns the modes of a session, from the strictest.
func Modes() []string { return []string{"strict", "development", "build", "breakglass"} }

// Resolvers returns the names of resolvers, each with the key that it serves.
func Resolvers() map[string]string {
	return map[string]string{
		"codex-home-auth-file":         "codex_auth",
		"claude-macos-keychain":        "claude_auth",
		"claude-home-credentials-file": "claude_auth",
		"gemini-home-oauth-file":       "gemini_oauth",
		"opencode-home-auth-file":      "opencode_auth",
	}
}
