// Package adapter knows coding agents as data: one document for each agent, with its
// program, arguments, endpoints, credentials and files. Documents of the operator
// stand beside those that come with the program, and replace those of the same name.
//
// It finds an agent's program on the host and says what of the installation a cell
// must show. It must not know cells, sessions or the command line, and it starts no
// process.
package adapter

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
)

// Adapter describes one coding agent.
type Adapter struct {
	// Version is the version of the document's format: 1.
	Version int `yaml:"version" json:"version"`
	// Name is that of the command line: forkcell agent NAME.
	Name string `yaml:"name" json:"name"`
	// Title is the name that its maker uses.
	Title   string  `yaml:"title" json:"title"`
	Program Program `yaml:"program" json:"program"`
	Tested  Range   `yaml:"tested" json:"tested,omitzero"`
	// Arguments stand before those of the user.
	Arguments Arguments `yaml:"arguments" json:"arguments,omitzero"`
	// Refused are arguments of the user that are not passed on.
	Refused []Refusal `yaml:"refused" json:"refused,omitempty"`
	// NativeSandbox says how the agent's own sandbox is set in a cell.
	NativeSandbox NativeSandbox `yaml:"native_sandbox" json:"native_sandbox,omitzero"`
	// Policy is what the agent needs of the network, as a policy without version and
	// credentials.
	Policy      Fragment     `yaml:"policy" json:"policy,omitzero"`
	Credentials []Credential `yaml:"credentials" json:"credentials,omitempty"`
	// Environment has variables of the agent's process.
	Environment map[string]string `yaml:"environment" json:"environment,omitempty"`
	// Files are written to the cell's home before the agent starts.
	Files []File `yaml:"files" json:"files,omitempty"`
	Paths Paths  `yaml:"paths" json:"paths,omitzero"`
	Turns Turns  `yaml:"turns" json:"turns,omitzero"`
	// Resume are the arguments that continue the last conversation.
	Resume Resume `yaml:"resume" json:"resume,omitzero"`
	// Notes are facts that a user of the agent should know.
	Notes []string `yaml:"notes" json:"notes,omitempty"`
}

// Program says how the agent's program is found on the host.
type Program struct {
	// Names are looked for in the directories of PATH, in this order.
	Names []string `yaml:"names" json:"names,omitempty"`
	// Package is the npm package of the program. It names the package to install,
	// and its package.json has the version.
	Package string `yaml:"package" json:"package,omitempty"`
	// VersionArguments make the program print its version.
	VersionArguments []string `yaml:"version_arguments" json:"version_arguments,omitempty"`
}

// Range is the versions of a program that were tested, both included.
type Range struct {
	From string `yaml:"from" json:"from,omitempty"`
	To   string `yaml:"to" json:"to,omitempty"`
}

// Arguments are those that Forkcell adds to a command line.
type Arguments struct {
	Always []string `yaml:"always" json:"always,omitempty"`
	// Yolo lets the agent work without asking, Prompt makes it ask.
	Yolo   []string `yaml:"yolo" json:"yolo,omitempty"`
	Prompt []string `yaml:"prompt" json:"prompt,omitempty"`
}

// Refusal is a set of arguments that the user may not give, and the reason.
type Refusal struct {
	// Flags are names of flags; one that ends in * covers all that begin so.
	Flags []string `yaml:"flags" json:"flags,omitempty"`
	// Settings are keys given by a flag such as codex's -c KEY=VALUE; a key that ends
	// in * covers all that begin so.
	Settings []string `yaml:"settings" json:"settings,omitempty"`
	// Commands are subcommands.
	Commands []string `yaml:"commands" json:"commands,omitempty"`
	Why      string   `yaml:"why" json:"why"`
}

// NativeSandbox says whether the agent's own sandbox is used.
type NativeSandbox struct {
	State string `yaml:"state" json:"state,omitempty"` // off or none
	Why   string `yaml:"why" json:"why,omitempty"`
}

// The ways in which a credential gets into a session.
const (
	// AsPlaceholder gives the cell a value that is worth nothing; the proxy replaces
	// it on the way to the endpoints.
	AsPlaceholder = "placeholder"
	// AsHeader sets a header of the requests, and the cell has nothing.
	AsHeader = "header"
)

// Credential is a secret that the agent can use.
type Credential struct {
	// Key is its name in auth, why and injection policies.
	Key string `yaml:"key" json:"key"`
	// How is placeholder or header.
	How string `yaml:"how" json:"how"`
	// Variable is the variable of the agent's process that holds the placeholder, and
	// the variable of the host that is its source unless another is configured.
	Variable string `yaml:"variable" json:"variable,omitempty"`
	// Sources are further variables of the host that can be its source.
	Sources []string `yaml:"sources" json:"sources,omitempty"`
	// Header and Format are those of a credential that goes in as a header.
	Header string `yaml:"header" json:"header,omitempty"`
	Format string `yaml:"format" json:"format,omitempty"`
	// Prefix begins the placeholder, for a program that checks the shape.
	Prefix string `yaml:"prefix" json:"prefix,omitempty"`
	// Endpoints are the only hosts and paths that the secret is sent to.
	Endpoints []Endpoint `yaml:"endpoints" json:"endpoints,omitempty"`
	// Headers and Query are the headers, and the parameters of the query, in which the
	// agent sends the placeholder. It is replaced there only, and stays as it is in
	// bodies: an agent shows its service what it has read.
	Headers []string `yaml:"headers" json:"headers,omitempty"`
	Query   []string `yaml:"query" json:"query,omitempty"`
	// Login describes the file of a login on the host.
	Login *Login `yaml:"login" json:"login,omitempty"`
	// Providers are the parts of a login with several services, by their key in the
	// login's file. A part has endpoints, prefix, login and policy of its own; entries of
	// the file that are no part stay out of the cell.
	Providers []Credential `yaml:"providers" json:"providers,omitempty"`
	// Policy is what this credential needs of the network besides the agent.
	Policy Fragment `yaml:"policy" json:"policy,omitzero"`
	// Excludes are keys that are left out if this one is used.
	Excludes []string `yaml:"excludes" json:"excludes,omitempty"`
}

// Endpoint is a host and port, and the paths there.
type Endpoint struct {
	Host string `yaml:"host" json:"host"`
	Port int    `yaml:"port" json:"port"`
	Path string `yaml:"path" json:"path,omitempty"`
}

// Login is the file in which an agent keeps a login, and where its tokens are
// refreshed.
type Login struct {
	// File is the path of the file below the home, on the host and in the cell.
	File string `yaml:"file" json:"file,omitempty"`
	// Tokens are the places of its secrets, as keys joined by dots.
	Tokens []string `yaml:"tokens" json:"tokens"`
	// Expires is the place of the time at which the login ends: milliseconds since
	// 1970, or a JWT with exp.
	Expires string `yaml:"expires" json:"expires,omitempty"`
	// Scopes is the place of the list of the login's scopes.
	Scopes string `yaml:"scopes" json:"scopes,omitempty"`
	// Refresh are the requests that renew the tokens.
	Refresh []TokenEndpoint `yaml:"refresh" json:"refresh,omitempty"`
}

// TokenEndpoint is a request that renews a login.
type TokenEndpoint struct {
	Host string `yaml:"host" json:"host"`
	Port int    `yaml:"port" json:"port"`
	Path string `yaml:"path" json:"path"`
	// Form reports that the request is a form. It is JSON else, and so is the answer.
	Form bool `yaml:"form" json:"form,omitempty"`
	// Passed are keys of the program's request that the service needs besides client_id.
	Passed []string `yaml:"passed" json:"passed,omitempty"`
	// Request and Answer map keys of the bodies to places of the login's file.
	Request map[string]string `yaml:"request" json:"request"`
	Answer  map[string]string `yaml:"answer" json:"answer"`
}

// File is a file in the cell's home.
type File struct {
	// Path is below the home.
	Path string `yaml:"path" json:"path"`
	// Autonomy is yolo or prompt for a file of one of them; "" is both.
	Autonomy string `yaml:"autonomy" json:"autonomy,omitempty"`
	// Credential is the key of the credential that the file is for; "" is any.
	Credential string `yaml:"credential" json:"credential,omitempty"`
	// Content may hold marks; see Parts.
	Content string `yaml:"content" json:"content"`
}

// Paths are places that matter to the agent. Those of the workspace are masked at any
// depth or, if they have a slash, below the root.
type Paths struct {
	// Instructions are files of the workspace that the agent reads as instructions.
	Instructions []string `yaml:"instructions" json:"instructions,omitempty"`
	// Control are files and directories of the workspace with settings, hooks, skills
	// and commands; a directory ends in a slash.
	Control []string `yaml:"control" json:"control,omitempty"`
	// MCP are files of the workspace that start MCP servers.
	MCP []string `yaml:"mcp" json:"mcp,omitempty"`
	// Own are paths of the workspace in which the agent keeps its own state. They are
	// no part of diff and apply.
	Own []string `yaml:"own" json:"own,omitempty"`
	// State are directories below the home with the agent's state, its history among
	// it. On the host none of them can be a workspace.
	State []string `yaml:"state" json:"state,omitempty"`
	// History are paths below the home with its conversations.
	History []string `yaml:"history" json:"history,omitempty"`
}

// The ways in which the end of a turn is known.
const (
	// TurnsHook means that the files of the adapter make the agent run a command.
	TurnsHook = "hook"
	// TurnsQuiet means that a terminal without input and output ends the turn.
	TurnsQuiet = "quiet"
)

// Turns says how the end of a turn is known.
type Turns struct {
	// By is hook or quiet.
	By string `yaml:"by" json:"by,omitempty"`
	// Tools reports whether the agent also runs a command after each use of a tool.
	Tools bool `yaml:"tools" json:"tools,omitempty"`
	// Written are fields of the hook's input. An agent that writes its conversation
	// after it runs the hook has written it when their text is in the file that the
	// field transcript_path names.
	Written []string `yaml:"written" json:"written,omitempty"`
}

// Resume are arguments that continue the last conversation.
type Resume struct {
	// Interactive stands before the user's arguments on a terminal. Empty means that
	// the agent cannot resume.
	Interactive []string `yaml:"interactive" json:"interactive,omitempty"`
	// Commands maps a command of the program that works without a terminal to what
	// stands in its place, when it is the user's first argument.
	Commands map[string][]string `yaml:"commands" json:"commands,omitempty"`
}

// Fragment is a part of a policy, as text.
type Fragment struct {
	text   string
	policy *policy.Policy
}

// IsZero reports whether there is no fragment.
func (f Fragment) IsZero() bool { return f.policy == nil }

// Policy returns the fragment as a policy; nil if there is none.
func (f Fragment) Policy() *policy.Policy { return f.policy }

// MarshalJSON returns the fragment as a policy file, in a string.
func (f Fragment) MarshalJSON() ([]byte, error) { return json.Marshal(f.text) }

// Credential returns the credential of a key.
func (a *Adapter) Credential(key string) (Credential, bool) {
	i := slices.IndexFunc(a.Credentials, func(c Credential) bool { return c.Key == key })
	if i < 0 {
		return Credential{}, false
	}
	return a.Credentials[i], true
}

// Parts returns the providers of a login, with keys as KEY.PROVIDER. A credential without
// providers is its own only part.
func (c Credential) Parts() []Credential {
	if len(c.Providers) == 0 {
		return []Credential{c}
	}
	out := slices.Clone(c.Providers)
	for i := range out {
		out[i].Key = c.Key + "." + out[i].Key
	}
	return out
}

// Keys returns the keys of the credentials, in the order of preference.
func (a *Adapter) Keys() []string {
	var out []string
	for _, c := range a.Credentials {
		out = append(out, c.Key)
	}
	return out
}

// Hosts returns the hosts that the policy of the agent names, sorted.
func (f Fragment) Hosts() []string {
	if f.policy == nil {
		return nil
	}
	var out []string
	for _, n := range f.policy.Network {
		for _, e := range n.Endpoints {
			out = append(out, strings.ToLower(e.Host.String()))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
