package answer

import (
	"regexp"
	"strings"
	"sync"
)

// The grammars. Each is the whole of a text, in the syntax of package regexp.
const (
	// A name is one of a cell, as `init` accepts it.
	name = "name"
	// An id is what the daemon made, as in run_01k...
	id = "id"
	// A word is a digest or another text without blanks that has no meaning here.
	word = "word"
	// A line is a text that a person chose: all of it is visible, and it is no flag.
	line = "line"
	// A title is a line that may look like a flag, as the name of a check does.
	title = "title"
)

// invisible are the characters that move the cursor, reverse the direction of text or are blank.
const invisible = `\x00-\x1f\x7f-\x9f\xad\x{34f}\x{61c}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}` +
	`\x{200b}-\x{200f}\x{2028}-\x{202f}\x{205f}-\x{206f}\x{2800}\x{3164}\x{fe00}-\x{fe0f}\x{feff}\x{ffa0}\x{fff9}-\x{fffb}\x{e0000}-\x{e0fff}`

// grammars has the expression of each grammar.
var grammars = map[string]string{
	name:  `[a-z0-9][a-z0-9._-]{0,62}`,
	id:    `[a-z]{1,16}_[0-9a-z]{1,64}`,
	word:  `[0-9A-Za-z][0-9A-Za-z.:_+=-]{0,255}`,
	line:  `[^\-` + invisible + `][^` + invisible + `]{0,1000}`,
	title: `[^` + invisible + `]{1,1000}`,
}

// Grammar returns the name of the grammar of a field: name, id, word, line or title. "" is
// that of a text that may be anything.
func Grammar(field string) string { return fields()[field] }

// fields has the grammar of each field that holds a name or an id, whatever document it
// is in.
var fields = sync.OnceValue(func() map[string]string {
	return byField(map[string]string{
		name: "cell forked_from heads session_id code",
		id: `apply_id cell_id checkpoint_after checkpoint_before checkpoint_id decision_id exec_id head_checkpoint_id
		began_checkpoint_id left_checkpoint_id judge_receipt_id publish_id race_id receipt_id run_id run_ids
		source_run_id applied head head_after head_before last_receipt last_run parent pending_runs
		pending_states checkpoints origins runs skipped upload`,
		word: `root root_after root_before meta_root policy_hash policy_hash_before effective_policy_hash
		injection_policy_sha256 sha256 new_digest old_digest key_id trusted previous algorithm layers
		contains commit base_commit signed token api instance truncated`,
		title: "name",
		line: `access actor adapter agent agent_version autonomy autonomy_assurance backend base best branch by cache
		cache_assurance cells change created_by credential credential_input_kind credential_modes
		credential_providers credential_readiness credential_resolver credentials current_assurance decision
		decision_before entry final_assurance id initial_assurance kind last_decision last_outcome live_status
		mode names native_sandbox network_policy observability_assurance on_timeout outcome
		program_version pull_request pushed_to repository result revoked_by runtime scopes session_assurance
		setting state status turns version version_place winner workspace_control_plane
		workspace_repo_mcp`,
	})
})

func byField(lists map[string]string) map[string]string {
	all := map[string]string{}
	for grammar, names := range lists {
		for name := range strings.FieldsSeq(names) {
			all[name] = grammar
		}
	}
	return all
}

var compiled = sync.OnceValue(func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for grammar, expression := range grammars {
		all[grammar] = regexp.MustCompile(`^(?:` + expression + `)\z`)
	}
	return all
})

func matches(grammar, value string) bool { return compiled()[grammar].MatchString(value) }
