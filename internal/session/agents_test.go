//go:build agents

package session_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/session/standin"
)

// program is an agent as its lane drives it.
type program struct {
	name       string
	credential string
	variable   string // of the host, with the real key
	key        string // the real key
	header     string // that the service gets it in
	hosts      []string
	args       []string
	// again continues the conversation.
	again []string
	// tools means that it tells when it has used a tool.
	tools bool
}

func programs() []program {
	const task, on = "do the task", "go on"
	return []program{
		{"claude", "claude_api_key", "ANTHROPIC_API_KEY", "sk-ant-api03-the-real-key-of-the-operator", "X-Api-Key", []string{"api.anthropic.com"}, []string{"-p", task}, []string{"-p", on}, true},
		{"codex", "codex_api_key", "OPENAI_API_KEY", "sk-the-real-key-of-the-operator", "Authorization", []string{"api.openai.com"}, []string{"exec", task}, []string{"exec", on}, false},
		{"gemini", "gemini_api_key", "GEMINI_API_KEY", "AIzaTheRealKeyOfTheOperator", "X-Goog-Api-Key", []string{"generativelanguage.googleapis.com"}, []string{"-p", task}, []string{"-p", on}, true},
		{"opencode", "opencode_anthropic_api_key", "ANTHROPIC_API_KEY", "sk-ant-api03-the-real-key-of-the-operator", "X-Api-Key", []string{"api.anthropic.com"}, []string{"run", "-m", "anthropic/claude-sonnet-4-5", task}, []string{"run", "-m", "anthropic/claude-sonnet-4-5", on}, false},
		{"copilot", "copilot_github_token", "COPILOT_GITHUB_TOKEN", "github_pat_TheRealTokenOfTheOperator", "Authorization", []string{"api.individual.githubcopilot.com", "api.github.com"}, []string{"--model", standin.CopilotModel, "-p", task}, []string{"--model", standin.CopilotModel, "-p", on}, false},
	}
}

// lane is one agent in one repository, with its service.
type lane struct {
	t       *testing.T
	p       program
	dir     string
	repo    string
	service *standin.Service
	server  *httptest.Server
	env     []string
	// given are flags by which the session finds its service and its credential.
	given []string
}

func TestRealAgents(t *testing.T) {
	t.Parallel()
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			l := newLane(t, p, nil)
			l.given = l.pins()
			l.session()
			l.rewind(l.checkTurns())
			l.checks(l.publish)
		})
	}
}

// checks checks what a session has done. publish is called when the work is accepted.
func (l *lane) checks(publish func()) {
	l.t.Helper()
	l.checkWork()
	publish()
	l.checkSecret()
	l.checkEvidence()
}

// newLane prepares an agent whose service listens on a loopback address or on the given
// listener.
func newLane(t *testing.T, p program, on net.Listener) *lane {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lane{t: t, p: p, dir: dir, repo: dir + "/repo"}
	for _, d := range []string{"repo/.claude", "user", "config"} {
		if err := os.MkdirAll(dir+"/"+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.file("repo/README.md", "the answer is 42\n")
	// A repository that would run a command on the host, if it could.
	l.file("repo/.claude/settings.json", `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch `+l.repo+`/hook-ran"}]}]}}`)
	l.service, l.server, err = standin.New(l.steps(), p.hosts, on)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.server.Certificate().Raw})
	l.file("ca.pem", string(ca))
	modules := os.Getenv("FORKCELL_AGENTS")
	if modules == "" {
		t.Fatal("FORKCELL_AGENTS names the directory in which the agents are installed; make test-agents sets it")
	}
	l.env = append(os.Environ(), "FORKCELL_HOME="+dir+"/home", "HOME="+dir+"/user", "XDG_CONFIG_HOME="+dir+"/config",
		"PATH="+modules+"/node_modules/.bin:"+os.Getenv("PATH"), "NODE_EXTRA_CA_CERTS=")
	if p.variable != "" {
		l.env = append(l.env, p.variable+"="+p.key)
	}
	l.repository()
	return l
}

// stored waits in the cell until the agent has stored the conversation, which may be
// seconds after its request, and then for another turn: only such a turn can be resumed.
// A turn is due every second, but takes longer with the hundreds of MiB of some agents.
const stored = `n=0; until [ $n -ge 60 ] || grep -rqsF 'do the task' ~/.copilot/session-state ~/.codex/sessions ~/.local/share/opencode; do sleep 0.5; n=$((n+1)); done; sleep 8; echo waited`

// steps returns what the service has the agent do. An agent that does not tell about its
// tools also runs a command that takes until a turn has its conversation.
func (l *lane) steps() []standin.Step {
	list := []standin.Step{
		{Tool: "read", File: l.repo + "/README.md"},
		{Tool: "write", File: l.repo + "/answer.txt", Content: "42"},
		{Tool: "shell", Command: "echo made by a command > command.txt"},
		{Tool: "shell", Command: "curl -sS -m 5 https://forbidden.example/ >/dev/null 2>&1; echo curl gave $?"},
		{Tool: "shell", Command: "env; cat ~/.claude.json ~/.codex/auth.json ~/.gemini/* ~/.local/share/opencode/auth.json 2>/dev/null; echo looked"},
		{Tool: "shell", Command: "mkdir -p .git/hooks .claude; echo 'touch pwned' > .git/hooks/post-commit; echo '{}' > .claude/settings.json; echo tried"},
	}
	if !l.p.tools {
		list = slices.Insert(list, 3, standin.Step{Tool: "shell", Command: stored})
	}
	return list
}

// repository makes the repository, of an operator who signs commits.
func (l *lane) repository() {
	l.t.Helper()
	l.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", l.dir+"/user/key")
	public, err := os.ReadFile(l.dir + "/user/key.pub")
	if err != nil {
		l.t.Fatal(err)
	}
	l.file("user/signers", "op@example.com "+string(public))
	if err := os.Chmod(l.dir+"/user/signers", 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.file("user/.gitconfig", "[user]\n\tname = Op\n\temail = op@example.com\n\tsigningkey = "+l.dir+"/user/key.pub\n"+
		"[gpg]\n\tformat = ssh\n[gpg \"ssh\"]\n\tallowedSignersFile = "+l.dir+"/user/signers\n[init]\n\tdefaultBranch = main\n")
	l.run("git", "init", "-q")
	l.run("git", "commit", "-q", "--allow-empty", "-m", "first")
}

func (l *lane) file(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(l.dir+"/"+name, []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// run runs a command in the repository and returns its output.
func (l *lane) run(name string, args ...string) string {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), name, args...)
	cmd.Dir, cmd.Env = l.repo, l.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		l.t.Fatalf("%s %q: %v\n%s\n%s", filepath.Base(name), args, err, out.String(), errs.String())
	}
	return out.String()
}

func (l *lane) forkcell(args ...string) string {
	l.t.Helper()
	return l.run(os.Getenv("FORKCELL_BIN"), args...)
}

// session runs the whole scripted session.
func (l *lane) session() {
	l.t.Helper()
	args := append([]string{"agent", l.p.name, "--name", "s", "--timeout", "5m"}, l.given...)
	turns := "1s"
	if l.p.tools {
		turns = "tool"
	}
	args = append(args, "--turns", turns)
	out := l.forkcell(append(append(args, "--"), l.p.args...)...)
	if !strings.Contains(out, standin.Done) {
		l.t.Errorf("the last answer is not in the output: %s", out)
	}
}

// pins returns the flags by which a session finds its service on loopback.
func (l *lane) pins() []string {
	l.t.Helper()
	_, port, err := net.SplitHostPort(l.server.Listener.Addr().String())
	if err != nil {
		l.t.Fatal(err)
	}
	args := []string{"--ca", l.dir + "/ca.pem"}
	for _, h := range l.p.hosts {
		args = append(args, "--resolve", h+":443=127.0.0.1:"+port)
	}
	return args
}

// rewind takes the session back to its first turn. The agent goes on with the
// conversation of that moment: the service gets what it said before, and has the rest
// done again. An agent that does not tell about its tools may have been in the middle of
// using one at its last turn, so it is then taken back to the start, and does all again.
func (l *lane) rewind(last int) {
	l.t.Helper()
	to := last
	if l.p.tools {
		to = 1
	}
	before := len(l.service.Requests())
	l.again(to, l.p.again)
	remembered := false
	for _, q := range l.service.Requests()[before:] {
		remembered = remembered || bytes.Contains(q.Body, []byte("do the task")) && bytes.Contains(q.Body, []byte("go on"))
	}
	if !remembered {
		l.t.Errorf("the conversation before turn %d is in no request after the rewind", to)
	}
	if !l.p.tools {
		l.again(0, l.p.args)
	}
}

// again takes the session back to a turn, and has the agent finish the task.
func (l *lane) again(to int, agentArgs []string) {
	l.t.Helper()
	args := append([]string{"session", "rewind", "s", "--to", strconv.Itoa(to), "--timeout", "5m"}, l.given...)
	out := l.forkcell(append(append(args, "--"), agentArgs...)...)
	if !strings.Contains(out, standin.Done) {
		l.t.Errorf("after the rewind to turn %d the last answer is not in the output: %s", to, out)
	}
}

// checkTurns checks that the session has turns, and that an agent which tells when it has
// used a tool asked for them. It returns the number of the last one.
func (l *lane) checkTurns() int {
	l.t.Helper()
	var list struct {
		Turns []struct {
			Turn         int    `json:"turn"`
			By           string `json:"by"`
			ChangedFiles int    `json:"changed_files"`
		} `json:"turns"`
	}
	if err := json.Unmarshal([]byte(l.forkcell("session", "turns", "s", "--json")), &list); err != nil {
		l.t.Fatal(err)
	}
	if len(list.Turns) < 2 {
		l.t.Fatalf("turns: %+v", list.Turns)
	}
	if l.p.tools && list.Turns[1].By != "asked" {
		l.t.Errorf("nobody asked for turn 1: %+v", list.Turns)
	}
	return len(list.Turns) - 1
}

// checkWork checks that the work is in the session and nowhere else, and that what it
// wrote to control files is set aside.
func (l *lane) checkWork() {
	l.t.Helper()
	diff := l.forkcell("session", "diff", "s", "--name-status")
	for _, want := range []string{"A\tanswer.txt", "A\tcommand.txt"} {
		if !strings.Contains(diff, want) {
			l.t.Errorf("%q is not in the diff:\n%s", want, diff)
		}
	}
	if strings.Contains(diff, "hook-ran") {
		l.t.Errorf("a hook of the repository ran:\n%s", diff)
	}
	l.forkcell("session", "accept", "s", "--apply")
	for _, name := range []string{"answer.txt", "command.txt"} {
		if _, err := os.Stat(l.repo + "/" + name); err != nil {
			l.t.Error(err)
		}
	}
	if _, err := os.Stat(l.repo + "/.git/hooks/post-commit"); err == nil {
		l.t.Error("a git hook of the session is in the repository")
	}
	if text, err := os.ReadFile(l.repo + "/.claude/settings.json"); err != nil || !strings.Contains(string(text), "SessionStart") {
		l.t.Errorf("the settings of the repository were changed: %s, %v", text, err)
	}
}

// checkSecret checks that the service got the real key, and the cell never had it.
func (l *lane) checkSecret() {
	l.t.Helper()
	authorized := 0
	for _, q := range l.service.Requests() {
		if bytes.Contains(q.Body, []byte(l.p.key)) {
			l.t.Errorf("%s %s: the agent sent the real key in a body", q.Method, q.Path)
		}
		if strings.Contains(q.Header.Get(l.p.header), l.p.key) {
			authorized++
		}
	}
	if authorized < 6 {
		l.t.Errorf("%d requests had the real key, want one for each step", authorized)
	}
	var results bytes.Buffer
	for _, q := range l.service.Requests() {
		results.Write(q.Body)
	}
	for _, want := range []string{"the answer is 42", "curl gave 6", "looked", "tried"} {
		if !bytes.Contains(results.Bytes(), []byte(want)) {
			l.t.Errorf("no result of a tool has %q", want)
		}
	}
	l.absent("s", l.p.key)
}

// absent checks that a secret is in no file of a cell. The command does not hold it
// whole.
func (l *lane) absent(cell, secret string) {
	l.t.Helper()
	found := l.forkcell("run", "--quiet", cell, "--", "sh", "-c", "k="+secret[:12]+"; grep -rlF \"$k\""+secret[12:]+" /home/sandbox . 2>/dev/null; true")
	if strings.TrimSpace(found) != "" {
		l.t.Errorf("a secret that begins with %s is in files of the cell: %s", secret[:8], found)
	}
}

// publish puts the accepted work on a branch, with a signature.
func (l *lane) publish() {
	l.t.Helper()
	l.forkcell("session", "publish", "s", "--branch", "agent/work")
	l.run("git", "verify-commit", "agent/work")
	if files := l.run("git", "diff", "--name-only", "main", "agent/work"); files != "answer.txt\ncommand.txt\n" {
		l.t.Errorf("published: %q", files)
	}
}

func (l *lane) checkEvidence() {
	l.t.Helper()
	l.forkcell("session", "verify", "s")
	l.forkcell("receipt", "verify", "--all")
	timeline := l.forkcell("session", "timeline", "s")
	if !strings.Contains(timeline, "forbidden.example") {
		l.t.Errorf("the timeline does not name the forbidden host:\n%s", timeline)
	}
	if strings.Contains(timeline, "websocket") {
		l.t.Errorf("the agent tried what its adapter could have switched off:\n%s", timeline)
	}
	var info struct {
		Status       string   `json:"status"`
		AgentVersion string   `json:"agent_version"`
		Assurance    string   `json:"session_assurance"`
		Credentials  []string `json:"credentials"`
	}
	if err := json.Unmarshal([]byte(l.forkcell("session", "show", "s", "--json")), &info); err != nil {
		l.t.Fatal(err)
	}
	if info.Status != "exited" || info.AgentVersion == "" || info.Assurance != "managed" || len(info.Credentials) != 1 || !strings.Contains(info.Credentials[0], "placeholder") {
		l.t.Errorf("session %+v", info)
	}
	if strings.Contains(l.forkcell("session", "logs", "s"), l.p.key) {
		l.t.Error("the real key is in the logs")
	}
}
