package session

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
)

// request returns a request for a session of an agent that comes with the program.
func request(t *testing.T, name string) Facts {
	t.Helper()
	e, err := adapter.NewCatalogue(filepath.Join(t.TempDir(), "none")).Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return Facts{
		Adapter: e, Installation: &adapter.Installation{Program: "/usr/bin/x", Command: []string{"/usr/bin/x"}, Version: e.Adapter.Tested.To},
		Workspace: "/w", Mode: Strict, Autonomy: adapter.Yolo, Now: time.Date(2026, 11, 17, 23, 59, 0, 0, time.UTC), Turns: "auto", Masks: true,
	}
}

func TestAcknowledgements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Facts)
		want   string // in the error; "" for none
	}{
		{"strict", func(*Facts) {}, ""},
		{"no such mode", func(q *Facts) { q.Mode = "fast" }, "unknown mode"},
		{"no such autonomy", func(q *Facts) { q.Autonomy = "wild" }, "unknown autonomy"},
		{"breakglass without", func(q *Facts) { q.Mode = Breakglass }, "needs an acknowledgement"},
		{"of yesterday", func(q *Facts) {
			q.Mode, q.Acknowledged = Breakglass, map[string]string{AckBreakglass: "2026-11-16"}
		}, "not today's date"},
		{"of today", func(q *Facts) {
			q.Mode, q.Acknowledged = Breakglass, map[string]string{AckBreakglass: "2026-11-17"}
		}, ""},
		{"in another zone", func(q *Facts) {
			q.Now = q.Now.In(time.FixedZone("east", 2*3600)) // it is tomorrow there
			q.Mode, q.Acknowledged = Breakglass, map[string]string{AckBreakglass: "2026-11-17"}
		}, ""},
		{"without effect", func(q *Facts) { q.Acknowledged = map[string]string{AckRepoMCP: "2026-11-17"} }, "has no meaning without"},
		{"redundant", func(q *Facts) {
			q.Mode, q.Acknowledged, q.Allow.RepoMCP = Breakglass, map[string]string{AckBreakglass: "2026-11-17", AckRepoMCP: "2026-11-17"}, true
		}, "masks nothing"},
		{"MCP", func(q *Facts) {
			q.Allow.RepoMCP, q.Acknowledged = true, map[string]string{AckRepoMCP: "2026-11-17"}
		}, ""},
	} {
		q := request(t, "claude")
		c.change(&q)
		_, err := Make(q)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || api.KindOf(err) != api.Usage) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestAssurance(t *testing.T) {
	t.Parallel()
	today := "2026-11-17"
	for _, c := range []struct {
		change func(*Facts)
		want   string
	}{
		{func(*Facts) {}, "managed"},
		{func(q *Facts) { q.Mode = Development }, "lower-assurance-development"},
		{func(q *Facts) { q.Mode = Build }, "lower-assurance-development"},
		{func(q *Facts) { q.Mode, q.Acknowledged = Breakglass, map[string]string{AckBreakglass: today} }, "lower-assurance-breakglass"},
		{func(q *Facts) { q.Cache = "standard" }, "lower-assurance-persistent-cache"},
		{func(q *Facts) { q.Masks = false }, "lower-assurance-unmasked-control-plane"},
		{func(q *Facts) { q.Degraded = true }, "lower-assurance-degraded-controls"},
		{func(q *Facts) {
			q.Allow = Allowances{ControlPlaneVCS: true, RepoMCP: true}
			q.Acknowledged = map[string]string{AckControlPlaneVCS: today, AckRepoMCP: today}
		}, "lower-assurance-control-plane-vcs+repo-mcp"},
		{func(q *Facts) {
			q.Credentials = []Credential{{Key: "claude_api_key", How: AsCopy, Source: "env:X"}}
		}, "lower-assurance-credential-copy"},
		{func(q *Facts) { q.Earlier = &api.SessionTerms{Assurance: "managed"} }, "managed"},
		{func(q *Facts) {
			q.Earlier = &api.SessionTerms{Assurance: "managed", AssuranceFalls: []string{api.ReasonLivePolicy}}
		}, "lower-assurance-live-policy"},
		{func(q *Facts) {
			q.Earlier, q.Cache = &api.SessionTerms{Assurance: "lower-assurance-development+persistent-cache+later"}, "standard"
		}, "lower-assurance-persistent-cache+development+later"},
	} {
		q := request(t, "claude")
		c.change(&q)
		p, err := Make(q)
		if err != nil {
			t.Fatal(err)
		}
		if p.Terms.Assurance != c.want {
			t.Errorf("got %s, want %s", p.Terms.Assurance, c.want)
		}
	}
}

func TestCopiesStaySelected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		earlier, how string
		ok           bool
	}{
		{"claude_api_key: copy, from env:Y", AsCopy, true},
		{"claude_api_key: copy, from env:Y", adapter.AsPlaceholder, false},
		{"github_hosts: copy, from file:/x", AsCopy, false},
		{"claude_auth: placeholder, from file:/x", adapter.AsPlaceholder, true},
	} {
		q := request(t, "claude")
		q.Credentials = []Credential{{Key: "claude_api_key", How: c.how, Source: "env:X"}}
		q.Earlier = &api.SessionTerms{Assurance: "lower-assurance-credential-copy", Credentials: []string{c.earlier}}
		if _, err := Make(q); (err == nil) != c.ok || !c.ok && api.CodeOf(err) != api.CodeCredential {
			t.Errorf("%s, now a %s: %v", c.earlier, c.how, err)
		}
	}
}

func TestPolicyOfPlan(t *testing.T) {
	t.Parallel()
	q := request(t, "claude")
	q.Credentials = []Credential{{Key: "claude_api_key", How: adapter.AsPlaceholder, Source: "env:ANTHROPIC_API_KEY"}}
	spec, _ := q.Adapter.Adapter.Credential("claude_api_key")
	given, err := credentials.DecideGiven(spec, "env:ANTHROPIC_API_KEY")
	if err != nil {
		t.Fatal(err)
	}
	grant, err := credentials.NewGrant([]credentials.Decision{given}, credentials.Host{})
	if err != nil {
		t.Fatal(err)
	}
	q.Grant = grant
	extra, err := policy.Parse("extra", []byte(`version: 1
network_policies:
  anthropic:
    endpoints: [{ host: example.org, port: 443, protocol: rest, access: read-only }]
    binaries: [{ path: "/**" }]
`), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q.Extra = extra
	p, err := Make(q)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"api.anthropic.com:443", "example.org:443"}; !slices.Equal(p.Terms.Endpoints, want) {
		t.Errorf("endpoints %v, want %v", p.Terms.Endpoints, want)
	}
	if c := p.Policy().Credentials; len(c) != 1 || c[0].Name != "claude_api_key" || c[0].ExposeAs != "ANTHROPIC_API_KEY" {
		t.Errorf("credentials %+v", c)
	}
	q.Credentials[0].Key = "codex_api_key"
	if _, err := Make(q); api.KindOf(err) != api.Usage {
		t.Errorf("a credential of another agent: %v", err)
	}
}

// TestEndpointsOfInjection: an endpoint that no policy can have is named as the operator
// wrote it, on one line.
func TestEndpointsOfInjection(t *testing.T) {
	t.Parallel()
	q := request(t, "claude")
	for _, text := range []string{"example.org:443", "127.0.0.1:80", "169.254.169.254:80"} {
		e, _ := injection.ParseEndpoint(text)
		q.Endpoints.Allow = append(q.Endpoints.Allow, e)
	}
	_, err := Make(q)
	const want = "the injection policy: allow_endpoints: 127.0.0.1:80: 127.0.0.1 is loopback, where no connection of a cell ever goes"
	if api.KindOf(err) != api.Usage || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestRefusedArgumentsOfPlan(t *testing.T) {
	t.Parallel()
	q := request(t, "claude")
	q.Arguments = []string{"--dangerously-skip-permissions"}
	if _, err := Make(q); api.KindOf(err) != api.Usage || err == nil {
		t.Errorf("got %v", err)
	}
	q.Arguments = []string{"-p", "hello"}
	p, err := Make(q)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/usr/bin/x", "--permission-mode", "bypassPermissions", "-p", "hello"}; !slices.Equal(p.Command, want) {
		t.Errorf("command %q, want %q", p.Command, want)
	}
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{
		"project/.git", "project/src", "project/sub", "plain", ".ssh/keys", ".claude/projects", "elsewhere/.codex/x", "bare/objects", "bare/refs", "linked", "behind", "pipe", ".local/share/opencode/x", ".local/share/tool",
		".cargo/registry", ".bitcoin/wallets", "snap",
	} {
		if err := os.MkdirAll(home+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"bare/HEAD": "", "bare/config": "", "linked/.git": "gitdir: " + home + "/project/.git/worktrees/linked\n", "project/sub/.git": "gitdir: ../.git/modules/sub\n"} {
		if err := os.WriteFile(home+"/"+file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(home+"/pipe/.git", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range [][2]string{{"../project/.git", "behind/.git"}, {"project", "alias"}, {".ssh", "keys"}, {"loop", "loop"}} {
		if err := os.Symlink(link[0], home+"/"+link[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir    string
		nonGit bool
		want   string // the root, or a part of the refusal
		refuse bool
	}{
		{"project", false, home + "/project", false},
		{"project/src", false, home + "/project", false},
		{"alias/src", false, home + "/project", false},
		{"plain", false, "not a git repository", true},
		{"plain", true, home + "/plain", false},
		{"", true, "your home", true},
		{"..", true, "your home", true},
		{".ssh/keys", true, "holds secrets", true},
		{"keys", true, "holds secrets", true},
		{".cargo/registry", true, "holds secrets", true},
		{".bitcoin/wallets", true, "holds secrets", true},
		{"snap", true, "snap holds ", true},
		{".claude/projects", true, "holds secrets", true},
		{".local/share/opencode/x", true, "the state of an agent", true},
		{".local/share", true, "share holds ", true},
		{".local/share/tool", true, home + "/.local/share/tool", false},
		{"elsewhere/.codex/x", true, "an agent's state", true},
		{"bare", true, "bare git repository", true},
		{"linked", true, "linked work tree", true},
		{"project/sub", true, "a submodule: its git directory is elsewhere", true},
		{"behind", true, "symbolic link", true},
		{"pipe", true, "no directory and no file", true},
	} {
		w, err := Host{Home: home}.Admission(c.nonGit).Admit(home + "/" + c.dir)
		switch {
		case c.refuse && (api.KindOf(err) != api.Refused || err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want a refusal with %q", c.dir, err, c.want)
		case !c.refuse && (err != nil || w.Root != c.want):
			t.Errorf("%s: got %s, %v, want %s", c.dir, w.Root, err, c.want)
		}
	}
	for _, dir := range []string{"/linked", "/project/sub"} { // the hint names the repository
		_, err := (Host{Home: home}).Admission(true).Admit(home + dir)
		if e, ok := errors.AsType[*api.Error](err); !ok || !strings.HasSuffix(e.Hint, ": --workspace "+home+"/project") {
			t.Errorf("%s: %+v", dir, err)
		}
	}
	if _, err := (Host{Home: home}).Admission(true).Admit(home + "/loop"); err == nil || strings.Contains(err.Error(), "nil") {
		t.Errorf("a link to itself: %v", err)
	}
	if _, err := (Host{Home: home}).Admission(true).Admit("/"); api.KindOf(err) != api.Refused || err == nil {
		t.Errorf("/: %v", err)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	terms := &api.SessionTerms{Agent: "claude", Assurance: "managed"}
	agentRuns := api.SessionInfo{Running: true, Detachable: true, Main: true, Clients: 2}
	shell := api.SessionInfo{Running: true, Detachable: true}
	over := agentRuns
	over.Running = false
	for _, c := range []struct {
		run  api.RunInfo
		live *api.LiveInfo
		want string
	}{
		{api.RunInfo{State: "running"}, &api.LiveInfo{Since: time.Now()}, api.SessionStarting},
		{api.RunInfo{State: "running"}, &api.LiveInfo{Since: time.Now().Add(-api.AgentLimit - time.Second)}, api.SessionStopping},
		{api.RunInfo{State: "running"}, &api.LiveInfo{Sessions: []api.SessionInfo{agentRuns}}, api.SessionRunning},
		{api.RunInfo{State: "running"}, &api.LiveInfo{Sessions: []api.SessionInfo{over}}, api.SessionStopping},
		{api.RunInfo{State: "running"}, &api.LiveInfo{Sessions: []api.SessionInfo{shell}, Since: time.Now()}, api.SessionStarting},
		{api.RunInfo{State: "running"}, &api.LiveInfo{Sessions: []api.SessionInfo{over, shell}}, api.SessionStopping},
		{api.RunInfo{State: "running"}, &api.LiveInfo{Since: time.Now(), Ending: true}, api.SessionStopping},
		{api.RunInfo{State: "running"}, &api.LiveInfo{Sessions: []api.SessionInfo{agentRuns}, Ending: true}, api.SessionStopping},
		{api.RunInfo{State: "running"}, nil, api.SessionInterrupted},
		{api.RunInfo{State: "ended", Outcome: "succeeded"}, nil, api.SessionExited},
		{api.RunInfo{State: "ended", Outcome: "failed"}, nil, api.SessionFailed},
		{api.RunInfo{State: "ended", Outcome: "killed"}, nil, api.SessionAborted},
		{api.RunInfo{State: "ended", Outcome: "timed_out"}, nil, api.SessionAborted},
		{api.RunInfo{State: "ended", Outcome: "interrupted"}, nil, api.SessionInterrupted},
	} {
		c.run.Session, c.run.RunID = terms, "run_1"
		status := &api.StatusResult{Live: c.live}
		if c.live != nil {
			c.live.RunID, c.live.PID = "run_1", 7
		}
		if got := describe(status, []api.RunInfo{c.run}, time.Now()); got.Status != c.want {
			t.Errorf("%+v: %s, want %s", c.run, got.Status, c.want)
		}
	}
}

// commands is a live cell with these commands.
type commands []api.SessionInfo

func (c commands) Sessions(context.Context, string) ([]api.SessionInfo, error) { return c, nil }

// TestCommand: whoever goes to a session gets to its agent, and never to a shell of the
// operator.
func TestCommand(t *testing.T) {
	t.Parallel()
	shell := api.SessionInfo{ExecID: "exec_1", Running: true, Detachable: true, TTY: true}
	agent := api.SessionInfo{ExecID: "exec_2", Running: true, Detachable: true, TTY: true, Main: true}
	over := agent
	over.Running = false
	if got, err := Command(t.Context(), commands{shell, agent}, "s"); err != nil || got.ExecID != agent.ExecID {
		t.Errorf("the agent is %+v, %v", got, err)
	}
	for _, list := range []commands{nil, {shell}, {shell, over}} {
		if got, err := Command(t.Context(), list, "s"); err == nil || api.CodeOf(err) != api.CodeNotStarted {
			t.Errorf("%+v: the agent is %+v, %v", list, got, err)
		}
	}
}

// TestUnstarted: a session without a run is being started for a while, and then it was
// interrupted.
func TestUnstarted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for age, want := range map[time.Duration]string{0: api.SessionStarting, api.AgentLimit + time.Second: api.SessionInterrupted} {
		i := describeUnstarted(&api.StatusResult{CellInfo: api.CellInfo{Cell: "s", Head: "chk_1", CreatedAt: now.Add(-age)}}, "claude", now)
		if i.Status != want || i.Agent != "claude" || hasUndecided(i) || RefuseDelete(i, false) != nil {
			t.Errorf("after %s: %+v", age, i)
		}
		if err := refuseUnstarted(i); err == nil || api.CodeOf(err) != api.CodeNotStarted {
			t.Errorf("after %s: %v", age, err)
		}
	}
	kept := describeUnstarted(&api.StatusResult{CellInfo: api.CellInfo{CreatedAt: now}, PendingStates: []string{"chk_2"}}, "claude", now)
	if RefuseDelete(kept, false) == nil {
		t.Error("work that was not decided is deleted")
	}
}

// cellsOf is a Reader of cells that have no runs, by name.
type cellsOf struct {
	Reader
	cells map[string]api.CellInfo
}

func (c cellsOf) Status(_ context.Context, name string) (*api.StatusResult, error) {
	info, ok := c.cells[name]
	if !ok {
		return nil, api.Missing("cell", name, "")
	}
	return &api.StatusResult{CellInfo: info}, nil
}

func (cellsOf) CellRuns(context.Context, string) ([]api.RunInfo, error) { return nil, nil }

// TestLabelledForks: a fork that has the label of the session's cell it was made of is
// no session whose start was interrupted.
func TestLabelledForks(t *testing.T) {
	t.Parallel()
	label := map[string]string{api.LabelAgent: "claude"}
	r := cellsOf{cells: map[string]api.CellInfo{
		"base": {Cell: "base"}, "session": {Cell: "session", ForkedFrom: "base", Labels: label},
		"fork": {Cell: "fork", ForkedFrom: "session", Labels: label}, "orphan": {Cell: "orphan", ForkedFrom: "removed", Labels: label},
	}}
	for name, want := range map[string]api.Code{"base": api.CodeNotFound, "session": "", "fork": api.CodeNotFound, "orphan": ""} {
		_, err := Show(t.Context(), r, name, time.Now())
		if (err == nil) != (want == "") || err != nil && api.CodeOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSessionNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for _, c := range []struct {
		base string
		try  int
		want string
	}{{"repo", 1, "repo-claude"}, {"repo", 2, "repo-claude-2"}, {long, 12, long[:53] + "-claude-12"}} {
		if got := sessionName(c.base, "claude", c.try); got != c.want || len(got) > maxCellName {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	tells := &adapter.Entry{Adapter: &adapter.Adapter{Name: "tells", Turns: adapter.Turns{By: adapter.TurnsHook, Tools: true}}}
	silent := &adapter.Entry{Adapter: &adapter.Adapter{Name: "silent", Turns: adapter.Turns{By: adapter.TurnsQuiet}}}
	for _, c := range []struct {
		entry *adapter.Entry
		when  string
		want  *api.TurnRequest
		err   string
	}{
		{tells, TurnsAuto, &api.TurnRequest{Asked: true}, ""},
		{tells, TurnsTool, &api.TurnRequest{Asked: true}, ""},
		{tells, TurnsOff, nil, ""},
		{tells, "1m", &api.TurnRequest{Every: time.Minute}, ""},
		{tells, "1ms", nil, "bad value 1ms"},
		{tells, "often", nil, "bad value often"},
		{silent, TurnsAuto, &api.TurnRequest{Quiet: 2 * time.Second}, ""},
		{silent, TurnsTool, nil, "silent does not tell"},
	} {
		got, err := (&Facts{Adapter: c.entry, Turns: c.when}).turnRequest()
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s, %s: %+v, %v", c.entry.Adapter.Name, c.when, got, err)
		}
	}
}

// TestAskForTurn runs the command of a hook with a sleep of its own, which counts, and
// which writes the conversation when the agent would.
func TestAskForTurn(t *testing.T) {
	t.Parallel()
	written := []string{"tool_use_id", "last_assistant_message"}
	for _, c := range []struct {
		name    string
		written []string
		input   string // of the hook; FILE is the conversation
		before  string // in the conversation
		text    string // that the agent writes while the hook sleeps
		slept   int
	}{
		{"an agent that writes at once", nil, `{}`, "", "", 0},
		{"written already", written, `{"transcript_path":"FILE","tool_use_id":"toolu_1"}`, "toolu_1", "", 0},
		{"written later", written, `{"transcript_path":"FILE","tool_use_id":"toolu_1"}`, "toolu_0", "toolu_1", 1},
		{"the file is made later", written, `{"transcript_path":"FILE","tool_use_id":"toolu_1"}`, "", "toolu_1", 1},
		{"an answer, cut at its first quote", written, `{"transcript_path":"FILE","last_assistant_message":"It is -e \"done\""}`, "It is", "It is -e \\\"done", 1},
		{"never written", written, `{"transcript_path":"FILE","tool_use_id":"toolu_1"}`, "toolu_0", "toolu_2", 20},
		{"a name inside of a text", written, `{"transcript_path":"FILE","tool_use_id":"toolu_1","tool_response":"{\"tool_use_id\":\"toolu_2\"}"}`, "toolu_0", "toolu_1", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "conversation")
			if c.before != "" {
				write(t, file, c.before+"\n", 0o600)
			}
			write(t, filepath.Join(dir, "sleep"), "#!/bin/sh\necho x >> "+dir+"/slept\necho '"+c.text+"' >> "+file+"\n", 0o755)
			asked := filepath.Join(dir, "asked")
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(askForTurn(c.written), api.TurnFile, asked))
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
			cmd.Stdin = strings.NewReader(strings.ReplaceAll(c.input, "FILE", file))
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v: %s", err, out)
			}
			slept, err := os.ReadFile(filepath.Join(dir, "slept"))
			if err != nil && c.slept > 0 || len(slept) != 2*c.slept {
				t.Errorf("slept %d times, want %d", len(slept)/2, c.slept)
			}
			if _, err := os.Stat(asked); err != nil {
				t.Error(err)
			}
		})
	}
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestBack(t *testing.T) {
	t.Parallel()
	list := &api.TurnList{Cell: "s"}
	if _, err := Back(list); err == nil {
		t.Error("there is nothing to go back to")
	}
	for _, c := range []struct {
		turn api.TurnInfo
		want int
	}{
		{api.TurnInfo{Turn: 0}, 0},
		{api.TurnInfo{Turn: 1}, 0},
		{api.TurnInfo{Turn: 2, Left: true}, 0},
		{api.TurnInfo{Turn: 3}, 1},
	} {
		list.Turns = append(list.Turns, c.turn)
		if got, err := Back(list); err != nil || got != c.want {
			t.Errorf("with turn %d: %d, %v, want %d", c.turn.Turn, got, err, c.want)
		}
	}
}
