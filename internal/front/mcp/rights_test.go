package mcp

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api/op"
)

// TestRightsOfTools says, apart from the operations, which tools a caller sees and which of them
// are announced as those that lose something.
func TestRightsOfTools(t *testing.T) {
	t.Parallel()
	readers := []string{
		"agent_list", "cell_list", "diff", "events", "list_files", "policy_explain", "policy_suggest", "read_file", "receipt_show", "receipt_verify",
		"search_files", "session_list", "session_show", "session_timeline", "session_turns", "wait_for_text",
	}
	deciders := []string{"accept", "apply", "reject", "session_accept", "session_publish"}
	destroyers := []string{"apply", "cell_remove", "write_file"}

	c := NewCatalog("")
	names := func(r Rights) (list []string) {
		for _, v := range c.visible(r) {
			list = append(list, v.tool.name)
		}
		slices.Sort(list)
		return list
	}
	all := names(Rights{Run: true, Decide: true, Sessions: true})
	runners := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(deciders, name) })
	for _, x := range []struct {
		rights Rights
		want   []string
	}{
		{Rights{Sessions: true}, readers}, {Rights{Decide: true, Sessions: true}, readers}, {Rights{Run: true, Sessions: true}, runners},
	} {
		if d := cmp.Diff(x.want, names(x.rights)); d != "" {
			t.Errorf("%+v: %s", x.rights, d)
		}
	}
	if len(all) != len(runners)+len(deciders) {
		t.Errorf("%d tools, of which %d need decide", len(all), len(all)-len(runners))
	}
	for _, v := range c.visible(Rights{Run: true, Decide: true, Sessions: true}) {
		name, a := v.tool.name, v.def.Annotations
		if !slices.ContainsFunc(op.All(), func(o op.Any) bool { return o.Head().ID == v.tool.op.ID }) {
			t.Errorf("%s is no operation", name)
		}
		if a.ReadOnlyHint != slices.Contains(readers, name) || *a.DestructiveHint != slices.Contains(destroyers, name) {
			t.Errorf("%s is announced with %+v", name, a)
		}
	}
}
