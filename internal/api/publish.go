package api

import "strings"

// PublishRequest puts accepted work on a branch of the repository in the source
// directory.
type PublishRequest struct {
	Cell string `json:"cell"`
	// To is the directory of the repository; "" is the source directory. A daemon does
	// not take it.
	To      Text   `json:"to,omitempty"`
	Branch  string `json:"branch"`
	Base    string `json:"base,omitempty"`
	Title   string `json:"title,omitempty"`
	Message string `json:"message,omitempty"`
	Sign    string `json:"sign,omitempty"` // ssh, gpg, off; "" is as git's global configuration says
	Push    bool   `json:"push,omitempty"`
	PR      bool   `json:"pr,omitempty"` // with Push
	// KeepCommits makes the cell's own commits again instead of one commit.
	KeepCommits bool `json:"keep_commits,omitempty"`
	DryRun      bool `json:"dry_run,omitempty"`
	// Settings is the path of the operator's settings; it need not exist.
	Settings string `json:"settings,omitempty"`
	// HasToken is a caller that may make only the branches that the settings name.
	HasToken bool `json:"-"`
}

// PublishResult says what was, or would be, published.
type PublishResult struct {
	Cell       string `json:"cell"`
	PublishID  string `json:"publish_id"`
	DryRun     bool   `json:"dry_run"`
	Repository string `json:"repository"`
	Branch     string `json:"branch"`
	Base       string `json:"base"`
	BaseCommit string `json:"base_commit"`
	Commit     string `json:"commit"`
	Commits    int    `json:"commits"`
	Signed     string `json:"signed"` // ssh, gpg, off
	Checkpoint string `json:"checkpoint_id"`
	Root       string `json:"root"`
	// Receipts are those of the runs whose work it is, the newest first.
	Receipts []PublishedReceipt `json:"receipts"`
	Changes  []PublishedChange  `json:"changes"`
	Files    int                `json:"files"`
	Lines    int                `json:"lines"`
	Bytes    int64              `json:"bytes"`
	Areas    int                `json:"areas"`
	Binaries int                `json:"binaries"`
	Limits   PublishLimits      `json:"limits"`
	// Ignored are added paths that .gitignore leaves out.
	Ignored []string `json:"ignored"`
	// WithoutEffect are settings of the base commit that only the operator can make.
	WithoutEffect []string `json:"without_effect"`
	// PushedTo is the URL that the branch was pushed to, without user and password.
	PushedTo string `json:"pushed_to,omitempty"`
	// PullRequest is the URL of the pull request that was made.
	PullRequest string `json:"pull_request,omitempty"`
}

// PublishLimits are the limits of a publication.
type PublishLimits struct {
	Files    int   `json:"files"`
	Lines    int   `json:"lines"`
	Bytes    int64 `json:"bytes"`
	Areas    int   `json:"areas"`
	Binaries int   `json:"binaries"`
}

// PublishedReceipt names a run whose work is published, and the decision about it.
type PublishedReceipt struct {
	RunID      string `json:"run_id"`
	ReceiptID  string `json:"receipt_id"`
	DecisionID string `json:"decision_id,omitempty"`
}

// PublishedChange is one path of the commit.
type PublishedChange struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
	Change     string `json:"change"` // added, modified, deleted
}

// IsID reports whether a text has the form of an id: a kind, an underscore, and letters and
// digits.
func IsID(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	kind, rest, ok := strings.Cut(s, "_")
	return ok && kind != "" && rest != "" && len(s) <= 96 && strings.Trim(kind, letters) == "" && strings.Trim(rest, letters+"0123456789") == ""
}
