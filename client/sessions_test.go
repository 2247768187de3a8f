package client_test

import (
	"slices"
	"testing"

	"github.com/forkcell/forkcell/client"
)

// operateSessions starts an agent, and uses every verb of its session.
func operateSessions(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, ok := t.Context(), checker(t)
	cell := newCell(t, c, "every-agent")
	if list := all(t, c.Agents.List(ctx)); !slices.ContainsFunc(list, func(a client.AgentState) bool { return a.Name == "generic" && a.Ready }) {
		t.Errorf("%+v", list)
	}
	ok(c.Agents.Get(ctx, "claude"))
	if _, err := c.Agents.Check(ctx, "generic"); err == nil {
		t.Error("an agent without a program was checked")
	}
	if list := all(t, c.Agents.Credentials(ctx, "claude", "build")); len(list) == 0 {
		t.Error("no credentials")
	}
	wanted := client.CreateSession{Cell: cell.Name, Agent: "generic", AllowNonGit: true, SessionSettings: client.SessionSettings{
		Arguments: []string{"sh", "-c", "echo work > work; cat"}, Turns: "1h",
	}}
	if plan := did[*client.SessionPlan](t)(c.Sessions.Plan(ctx, wanted)); plan.Terms.Assurance != "managed" {
		t.Errorf("%+v", plan)
	}
	session := did[*client.Session](t)(c.Sessions.Start(ctx, wanted))
	removeAfter(t, c, session.Name)
	if session.Started.Status != "running" || session.Name != "every-agent-generic" {
		t.Errorf("%+v", session.Started)
	}
	ok(c.Sessions.Get(ctx, session.Name))
	if list := all(t, c.Sessions.List(ctx, client.SessionFilter{Agent: "generic", Status: "running"})); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	ok(session.Send(ctx, client.Send{Message: "hello"}))
	zero := 0
	if back := did[*client.RewoundSession](t)(session.Rewind(ctx, client.Rewind{To: &zero})); back.Session.Status != "running" {
		t.Errorf("%+v", back)
	}
	if turns := all(t, session.Turns(ctx)); len(turns) == 0 || turns[0].Turn != 0 {
		t.Errorf("%+v", turns)
	}
	ok(session.Stop(ctx, client.StopSession{}))
	ok(session.Accept(ctx, client.Accept{}))
	if happened := all(t, session.Timeline(ctx)); len(happened) < 4 {
		t.Errorf("%+v", happened)
	}
	// Its source is no git repository.
	if _, err := session.Publish(ctx, client.Publish{Branch: "work"}); err == nil {
		t.Error("published")
	}
	if err := session.Remove(ctx, true); err != nil {
		t.Error(err)
	}
}
