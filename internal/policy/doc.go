// Package policy is the policy language: one YAML document that defines what a
// run may do.
//
// It parses strictly, validates every key, writes the canonical text of a
// policy, hashes it, compares policies and explains their decisions about
// paths, system calls and requests. A policy comes with a repository or from a
// person and is not trusted: anything unknown, duplicate, ambiguous or of the
// wrong type is an error with its line and column, and no key is weaker than it
// reads.
//
// The package is pure. It must not know files, clocks, environments, processes
// or the host that it runs on: the caller passes what it needs in Options and
// PathContext. It enforces nothing; docs/reference/policy.md describes the
// enforcement.
package policy
