package session

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// When turns are taken, besides a duration.
const (
	// TurnsAuto takes one at the end of each request to the agent.
	TurnsAuto = "auto"
	// TurnsTool takes one after each use of a tool, too.
	TurnsTool = "tool"
	TurnsOff  = "off"
)

// quietTurn is how long an agent that does not tell the end of a turn must be quiet.
const quietTurn = 2 * time.Second

// turnRequest returns when the turns of a session are taken; nil if never.
func (q *Facts) turnRequest() (*api.TurnRequest, error) {
	told := q.Adapter.Adapter.Turns
	switch q.Turns {
	case TurnsOff, "":
		return nil, nil //nolint:nilnil // as documented
	case TurnsTool:
		if !told.Tools {
			return nil, api.Usagef("give --turns auto or a duration", "agent %s does not tell when it has used a tool", q.Adapter.Adapter.Name)
		}
		return &api.TurnRequest{Asked: true}, nil
	case TurnsAuto:
		// A command in place of the agent runs none of its hooks.
		if told.By == adapter.TurnsHook && !q.Allow.ArbitraryCommand {
			return &api.TurnRequest{Asked: true}, nil
		}
		return &api.TurnRequest{Quiet: quietTurn}, nil
	}
	d, err := time.ParseDuration(q.Turns)
	if err != nil || d < time.Second {
		return nil, api.Usagef("one of: auto, tool, off, or a duration of at least 1s", "bad value %s for --turns", quote.Arg(q.Turns))
	}
	return &api.TurnRequest{Every: d}, nil
}

// turnsText says when turns are taken; "" is never.
func (q *Facts) turnsText(t *api.TurnRequest) string {
	switch {
	case t == nil:
		return ""
	case t.Every > 0:
		return "every " + q.Turns
	case t.Quiet > 0:
		return "one after " + t.Quiet.String() + " without input or output"
	case q.Turns == TurnsTool:
		return "one for each use of a tool"
	}
	return "one for each request"
}

// askForTurn returns the command by which a program in the cell asks for a turn.
//
// An agent may write its conversation later than it runs its hooks, and a turn without
// the conversation cannot be resumed. The hook's input names the file of the
// conversation, and has the given fields, whose text is in that file once it is
// written: the command waits for it, for two seconds at most.
func askForTurn(written []string) string {
	ask := "echo > " + api.TurnFile
	if len(written) == 0 {
		return ask
	}
	find := make([]string, len(written))
	for i, field := range written {
		find[i] = `$(field ` + field + ` '[^"\\]\{1,60\}')`
	}
	return `input=$(cat); field() { printf %s "$input" | sed -n 's/.*"'"$1"'" *: *"\('"$2"'\).*/\1/p'; }; ` +
		`file=$(field transcript_path '[^"]*'); text="` + strings.Join(find, "") + `"; n=0; ` +
		`while [ $n -lt 20 ] && ! tail -n 20 "$file" 2>/dev/null | grep -qF -e "$text"; do sleep 0.1; n=$((n+1)); done; ` + ask
}

// turnCommand returns the command that the agent runs at the end of a turn.
func (p *Plan) turnCommand() string {
	if p.turns != nil && p.turns.Asked {
		return askForTurn(p.adapter.Turns.Written)
	}
	return "true"
}

// toolCommand returns the command that the agent runs after each use of a tool.
func (p *Plan) toolCommand() string {
	if p.Terms.Turns == TurnsTool {
		return askForTurn(p.adapter.Turns.Written)
	}
	return "true"
}

// Back returns the number of the turn before the last that is not left.
func Back(list *api.TurnList) (int, error) {
	var kept []int
	for _, t := range list.Turns {
		if !t.Left {
			kept = append(kept, t.Turn)
		}
	}
	switch len(kept) {
	case 0:
		return 0, api.Refusef(api.CodeTurns, "", "session %s has no turns: it was started without them", list.Cell)
	case 1:
		return kept[0], nil
	}
	return kept[len(kept)-2], nil
}

// Resume starts a session that has ended again, in its own cell. After an error it
// has ended as before.
func Resume(ctx context.Context, e Engine, name string, o Start) (*Running, error) {
	s, err := begin(ctx, e, name, o)
	if err != nil {
		return nil, errors.Join(err, undo(ctx, e, name, true))
	}
	s.resumed = true
	return s, nil
}
