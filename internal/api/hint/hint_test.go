package hint_test

import (
	"encoding/json"
	"testing"

	"github.com/forkcell/forkcell/internal/api/hint"
)

func words() hint.Words {
	text := func(name string) func(map[string]any) string {
		return func(values map[string]any) string {
			doc, _ := json.Marshal(values)
			return name + " " + string(doc)
		}
	}
	return hint.Words{
		{Command: "ls", Text: text("LIST")},
		{Command: "accept {cell}", Fields: map[string]bool{"force": true, "on_conflict": false}, Text: text("ACCEPT")},
		{Command: "restore {cell} {checkpoint}", Text: text("RESTORE")},
		{Command: "run {cell}", Fields: map[string]bool{"credentials": false}, Text: text("RUN")},
		{Command: "race {cell}", Text: text("RACE")},
		{Command: "race {cell} --choose {attempt}", Fields: map[string]bool{"force": true}, Text: text("CHOOSE")},
		{Command: "receipt verify", Fields: map[string]bool{"all": true}, Text: text("VERIFY")},
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hint, want string }{
		{"", ""},
		{"choose another name", "choose another name"},
		{"`forkcell ls` shows them", "`LIST {}` shows them"},
		{"`forkcell accept demo --force` or `forkcell restore demo`", "`ACCEPT {\"cell\":\"demo\",\"force\":true}` or `RESTORE {\"cell\":\"demo\"}`"},
		{"`forkcell accept --force demo --on-conflict ours`", "`ACCEPT {\"cell\":\"demo\",\"force\":true,\"on_conflict\":\"ours\"}`"},
		{"`forkcell restore demo chk_1` brings it back", "`RESTORE {\"cell\":\"demo\",\"checkpoint\":\"chk_1\"}` brings it back"},
		{"`forkcell run demo -- make --force`", "`RUN {\"cell\":\"demo\"}`"},
		{"`forkcell race demo --choose demo-1 --force`", "`CHOOSE {\"attempt\":\"demo-1\",\"cell\":\"demo\",\"force\":true}`"},
		{"`forkcell race demo`", "`RACE {\"cell\":\"demo\"}`"},
		{"`forkcell receipt verify --all` names it", "`VERIFY {\"all\":true}` names it"},
		// What the caller cannot do stays a command.
		{"`forkcell recover --accept-loss`", "`forkcell recover --accept-loss`"},
		{"`forkcell accept demo --apply`", "`forkcell accept demo --apply`"},
		{"`forkcell ls demo`", "`forkcell ls demo`"},
		{"`forkcell receipt`", "`forkcell receipt`"},
		// Flags outside of a command are fields.
		{"give --on-conflict ours|theirs, --force or --home", "give on_conflict ours|theirs, force or --home"},
		{"`--force`; --credential token=SOURCE", "`force`; credentials token=SOURCE"},
		{"(--force)", "(force)"},
		{"dir/--force and \"--force  a\" are files", "dir/--force and \"--force  a\" are files"},
		{"a--force, ---force and --forced stay", "a--force, ---force and --forced stay"},
	} {
		if got := words().Hint(c.hint); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.hint, got, c.want)
		}
	}
	if got := words().Flags("--force needs `forkcell ls`"); got != "force needs `forkcell ls`" {
		t.Error(got)
	}
}
