// Package policy is the policy language: one YAML document that says what a run
// may do.
//
// It parses strictly, validates every key, writes the one canonical text that a
// meaning has, hashes it, compares policies and explains their decisions about
// paths, system calls and requests. A policy comes with a repository or from a
// person and is not trusted: whatever is unknown, doubled, ambiguous or of the
// wrong type is an error with its line and column, and nothing has a weaker
// meaning than it says.
//
// The package is pure. It must not know files, clocks, environments, processes
// or which host it runs on: what it needs of those is handed in with Options and
// PathContext. It enforces nothing; docs/reference/policy.md says what does.
package policy
