package api

import "encoding/json"

// PolicyResult is a policy: a cell's, or that of a file.
type PolicyResult struct {
	Cell       string          `json:"cell"`
	PolicyHash string          `json:"policy_hash"`
	Policy     json.RawMessage `json:"policy"`

	Text []byte `json:"-"` // the policy as a file
}

// PolicyApplied says that a cell got another policy.
type PolicyApplied struct {
	Cell       string `json:"cell"`
	PolicyHash string `json:"policy_hash"`
	Before     string `json:"policy_hash_before"`

	// Live says that the policy rules a live cell already: its run, from this
	// event on, and under which hash if flags of the start narrowed it.
	Live      bool   `json:"live"`
	RunID     string `json:"run_id,omitempty"`
	FromEvent int64  `json:"from_event,omitempty"`
	RulesAs   string `json:"effective_policy_hash,omitempty"`
}

// PolicyDiff is what differs between two policies.
type PolicyDiff struct {
	HashA       string             `json:"policy_hash_a"`
	HashB       string             `json:"policy_hash_b"`
	Differences []PolicyDifference `json:"differences"`
}

// PolicyDifference is one key that two policies have different values for.
type PolicyDifference struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// PolicySuggestion is a policy for a person to review.
type PolicySuggestion struct {
	Cell       string          `json:"cell"`
	RunID      string          `json:"run_id"`
	PolicyHash string          `json:"policy_hash"`
	Before     string          `json:"policy_hash_before"`
	Policy     json.RawMessage `json:"policy"`
	// Added says what the policy allows besides the run's own, Left what was
	// denied and is still.
	Added []string `json:"added"`
	Left  []string `json:"left"`
	// Unseen reports that the run had no network at all, so nothing shows what
	// it needed: the additions are the hosts that its command lines name.
	Unseen bool `json:"unseen"`

	Text []byte `json:"-"` // a policy file
}

// Explanation says what a policy decides, by which rule and why.
type Explanation struct {
	Allowed bool `json:"allowed"`
	// Access is the access to a path; empty for everything else.
	Access string `json:"access,omitempty"`
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Needs is a flag that the operator must set, or nothing is run.
	Needs string `json:"needs,omitempty"`
	// Audited reports that the rules deny it and that it is allowed because
	// enforcement is audit.
	Audited bool `json:"audited,omitempty"`
}
