package daemon_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
	agentsession "github.com/forkcell/forkcell/internal/session"
)

// agentSession makes a cell that is the session of an agent with two turns.
func agentSession(d *testDaemon, cell string) {
	d.Helper()
	d.cell(cell)
	d.Cleanup(func() { d.remove(cell) })
	e, release, err := local.Open(d.home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		d.Fatal(err)
	}
	_, err = e.Start(d.Context(), api.StartRequest{
		Cell: cell, Turns: &api.TurnRequest{Asked: true},
		Session: &api.SessionTerms{
			Agent: "claude", AgentVersion: "2.1.0", Adapter: strings.Repeat("a", 64), Mode: "strict", Autonomy: "yolo", Assurance: "managed", ControlPlane: "masked", RepoMCP: "denied",
			Endpoints: []string{"api.example.com:443"}, Credentials: []string{"<b>key</b>: placeholder"},
		},
	})
	if err != nil {
		d.Fatal(err)
	}
	for _, script := range []string{"echo one > a; echo I made a.", "echo two > b"} {
		d.exec(cell, "sh", "-c", script)
		if _, err := e.Turn(d.Context(), cell); err != nil {
			d.Fatal(err)
		}
	}
	if err := release(); err != nil {
		d.Fatal(err)
	}
}

// TestSiteSession: the page of an agent's session shows what it may do and its turns,
// and takes it back to one.
func TestSiteSession(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	agentSession(d, "demo")
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/cells/demo")
	r.has(`href="/ui/cells/demo/session"`)
	r.get(http.StatusOK, "/ui/cells/demo/session")
	r.has("claude", "2.1.0", "mode strict", "api.example.com:443", "placeholder", "control files masked", ">changes</a>")
	r.lacks("<b>key</b>", "taken back")
	if n := strings.Count(r.page, `name="turn"`); n != 3 {
		t.Errorf("the page has %d turns, want 3", n)
	}
	r.get(http.StatusOK, strings.ReplaceAll(r.field(regexp.MustCompile(`href="(/ui/compare[^"]+)"`)), "&amp;", "&"))
	r.has("1 file")
	r.get(http.StatusOK, "/ui/cells/demo/session")
	r.send(http.StatusBadRequest, "/ui/cells/demo/rewind", "turn", "x")
	r.get(http.StatusOK, "/ui/cells/demo/session")
	r.send(http.StatusOK, "/ui/cells/demo/rewind", "turn", "1")
	r.has("The session went back to the chosen turn.", "taken back")
	if d.state("demo") != "idle" {
		t.Error("the agent runs on")
	}
	d.ran("demo", "test -e a -a ! -e b || echo wrong > wrong")
	r.get(http.StatusOK, "/ui/cells/demo/files")
	r.lacks("wrong")
}

// TestSiteMessages: the page of a session lists the messages that were sent to its agent.
func TestSiteMessages(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	i := d.session(listener("demo"))
	r := newReviewer(d)
	at := "/ui/cells/" + i.SessionID + "/session"
	r.get(http.StatusOK, at)
	r.has("Nobody has sent one.")
	d.says(i.SessionID, "one")
	d.says(i.SessionID, "twice")
	d.want(http.StatusOK, nil, "POST", "/v1/sessions/"+i.SessionID+"/stop", nil)
	r.get(http.StatusOK, at)
	r.has("4 bytes typed into", "6 bytes typed into")
	if strings.Index(r.page, "6 bytes typed") > strings.Index(r.page, "4 bytes typed") {
		t.Error("the last message is not the first of the list")
	}
}

// TestSiteCounts: the pages count what a session changed as the command line does, while
// it runs, after a rewind, and when it has ended. A rewind forgets no message.
func TestSiteCounts(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	i := d.session(listener("demo"))
	r := newReviewer(d)
	agree := func(when string, want int) {
		t.Helper()
		var shown api.AgentSession
		d.want(http.StatusOK, &shown, "GET", "/v1/sessions/"+i.SessionID, nil)
		listed := -1
		d.engine(func(e *engine.Engine) {
			list, err := agentsession.List(t.Context(), e, "", "", time.Now())
			if err != nil || len(list) != 1 {
				t.Fatalf("%d sessions, %v", len(list), err)
			}
			listed = list[0].ChangedFiles
		})
		if listed != want || shown.ChangedFiles != want {
			t.Errorf("%s: the list has %d, the API %d, want %d", when, listed, shown.ChangedFiles, want)
		}
		r.get(http.StatusOK, "/ui/cells/"+i.SessionID+"/session")
		r.has(api.Counted(want, "file") + " since it began")
		r.get(http.StatusOK, "/ui/compare?cell=demo")
		r.has(api.Counted(want, "file"))
		r.lacks("nothing ran")
	}
	d.says(i.SessionID, "one")
	d.turn(i.SessionID)
	agree("it runs", 1)
	d.want(http.StatusOK, nil, "POST", "/v1/sessions/"+i.SessionID+"/rewind", api.RewindBody{To: new(1)})
	agree("it was rewound and runs", 1)
	r.get(http.StatusOK, "/ui/cells/"+i.SessionID+"/session")
	r.has("4 bytes typed into")
	r.lacks("Nobody has sent one.")
	d.want(http.StatusOK, nil, "POST", "/v1/sessions/"+i.SessionID+"/stop", nil)
	agree("it has ended", 1)
	d.want(http.StatusOK, nil, "POST", "/v1/sessions/"+i.SessionID+"/rewind", api.RewindBody{To: new(0), NoStart: true})
	agree("it is as it began", 0)
}
