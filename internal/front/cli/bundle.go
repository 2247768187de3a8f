package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/document"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

func newSupportBundle(s *frame) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Write what a bug report needs, without secrets",
		Long: `Write a JSON document for a bug report: the version, what this host can enforce, which
agents and credentials are ready, and the states of sessions. It has only what is on a
list: no names of cells, paths of workspaces, arguments, variables, logs or contents of
files. What could not be found out is listed under gaps.`,
		Example: `  forkcell support-bundle
  forkcell support-bundle --output bundle.json`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			return runSupportBundle(cmd.Context(), s, output)
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "write a new private `FILE` instead of stdout")
	return cmd
}

// bundle is the document. Every field is one that may be shown.
type bundle struct {
	Schema    int             `json:"schema_version"`
	Tool      string          `json:"tool"`
	Generated time.Time       `json:"generated_at"`
	Redaction []string        `json:"redaction_rules"`
	Install   bundleInstall   `json:"install"`
	Controls  []bundleControl `json:"controls"`
	Policy    bundlePolicy    `json:"policy"`
	Agents    []bundleAgent   `json:"agents"`
	Sessions  []bundleSession `json:"sessions"`
	Gaps      []string        `json:"gaps"`
}

type bundleInstall struct {
	Version string `json:"version"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Root    bool   `json:"root"`
}

type bundleControl struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

type bundlePolicy struct {
	Exists bool `json:"exists"`
	Files  int  `json:"files"`
}

type bundleAgent struct {
	Name        string             `json:"name"`
	Own         bool               `json:"own"` // a document of the operator
	Installed   bool               `json:"installed"`
	Version     string             `json:"version,omitempty"`
	Place       string             `json:"version_place"`
	Ready       bool               `json:"ready"`
	Credentials []bundleCredential `json:"credentials"`
}

type bundleCredential struct {
	Key       string `json:"credential"`
	Selected  bool   `json:"selected"`
	How       string `json:"how,omitempty"`
	Readiness string `json:"credential_readiness"`
	Input     string `json:"credential_input_kind"`
}

type bundleSession struct {
	Agent     string    `json:"agent"`
	Version   string    `json:"agent_version,omitempty"`
	Mode      string    `json:"mode"`
	Status    string    `json:"status"`
	Started   time.Time `json:"started_at"`
	Assurance string    `json:"assurance"`
}

func runSupportBundle(ctx context.Context, s *frame, output string) error {
	b := &bundle{
		Schema: 1, Tool: "forkcell", Generated: s.now().UTC(),
		Redaction: []string{"only listed fields", "no names of cells, paths, arguments, variables, logs or contents", "texts of the host: secret-looking parts removed, at most 200 characters"},
		Install:   bundleInstall{Version: s.version, OS: runtime.GOOS, Arch: runtime.GOARCH, Root: os.Geteuid() == 0},
		Controls:  []bundleControl{}, Agents: []bundleAgent{}, Sessions: []bundleSession{}, Gaps: []string{},
	}
	b.agents(s)
	if err := s.engine(ctx, Read, func(ctx context.Context, e Engine) error { return b.home(ctx, s, e) }); err != nil {
		if ctx.Err() != nil {
			return err
		}
		b.gap("the home", err)
	}
	var text bytes.Buffer
	if err := document.Write(&text, b); err != nil {
		return err
	}
	if output == "" {
		_, err := s.out.Write(text.Bytes())
		return err
	}
	if err := writeNew(output, text.Bytes()); err != nil {
		return err
	}
	s.note("wrote " + quote.Path(output) + "; read it before you send it")
	return nil
}

// gap records what could not be found out: only the code of the error, since its text
// may name files.
func (b *bundle) gap(what string, err error) {
	b.Gaps = append(b.Gaps, what+": "+string(bodyOf(err).Code))
}

// home adds what the state directory knows.
func (b *bundle) home(ctx context.Context, s *frame, e Engine) error {
	checks, err := e.Doctor(ctx)
	if err != nil {
		b.gap("controls", err)
	}
	for _, c := range checks {
		b.Controls = append(b.Controls, bundleControl{plainText(c.Name), c.Status, plainText(c.Reason)})
	}
	list, err := agentsession.List(ctx, e, "", "", s.now())
	if err != nil {
		b.gap("sessions", err)
	}
	for _, i := range list {
		b.Sessions = append(b.Sessions, bundleSession{builtinName(i.Agent), versionText(i.AgentVersion), i.Mode, i.Status, i.StartedAt, i.CurrentAssurance})
	}
	return nil
}

// agents adds what this host has of each agent.
func (b *bundle) agents(s *frame) {
	o := authFlags{mode: agentsession.Strict}
	_, list, err := o.store(s)
	if err != nil {
		b.gap("agents", err)
		return
	}
	policy, err := o.load(s)
	if err != nil {
		b.gap("the injection policy", err)
	}
	if policy != nil {
		b.Policy = bundlePolicy{true, len(policy.Sources)}
	}
	for _, e := range list {
		st := s.host().State(e)
		a := bundleAgent{
			Name: builtinName(e.Adapter.Name), Own: e.File != "", Installed: st.Installed, Version: versionText(st.Version), Place: st.Place, Ready: st.Ready,
			Credentials: []bundleCredential{},
		}
		for _, d := range credentials.Decide(o.request(s, e.Adapter, policy, "")) {
			if d.Readiness != credentials.Absent && e.File == "" {
				a.Credentials = append(a.Credentials, bundleCredential{d.Credential, d.Selected, d.How, d.Readiness, d.Input})
			}
		}
		b.Agents = append(b.Agents, a)
	}
}

// builtinName returns the name of an agent that comes with the program. Other names are the
// operator's own.
func builtinName(name string) string {
	if slices.Contains(adapter.Builtin(), name) {
		return name
	}
	return "other"
}

// maxPlainText bounds a text of the host in a bundle.
const maxPlainText = 200

// plainText returns a text of the host without secrets, paths other than those of the
// system, and anything invisible.
func plainText(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		if at := strings.IndexByte(w, '/'); at >= 0 && !regexp.MustCompile(`^/(proc|sys|dev|etc|usr)\b`).MatchString(w[at:]) {
			words[i] = w[:at] + "PATH"
		}
	}
	return shorten(quote.Line(redact.Text(strings.Join(words, " "))), maxPlainText)
}

// versionText returns a version, or "" for a text that is none.
func versionText(text string) string {
	if regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,3}(-[a-z]+(\.[0-9]+)?)?$`).MatchString(text) {
		return text
	}
	return ""
}

// writeNew writes a new file that only the caller can read.
func writeNew(name string, text []byte) error {
	full, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	dir, err := fsx.OpenRoot(filepath.Dir(full))
	if err != nil {
		return usageError("", "%s: %v", quote.Path(name), err)
	}
	defer func() { _ = dir.Close() }()
	if _, err := dir.Lstat(filepath.Base(full)); err == nil {
		return refusal(api.CodeExists, "give another name", "%s exists", quote.Path(name))
	}
	return fsx.WriteFile(dir, filepath.Base(full), text, 0o600)
}
