package session

import (
	"context"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Attacher joins commands of live cells.
type Attacher interface {
	Attach(ctx context.Context, r api.ExecRequest, session string, io engine.Stdio) (*api.ExecResult, error)
}

// Lister lists the commands of live cells.
type Lister interface {
	Sessions(ctx context.Context, cell string) ([]api.SessionInfo, error)
}

// Command returns the agent's command in a live session.
func Command(ctx context.Context, e Lister, name string) (api.SessionInfo, error) {
	list, err := e.Sessions(ctx, name)
	if err != nil && api.CodeOf(err) != api.CodeNotStarted {
		return api.SessionInfo{}, missingError(err, name)
	}
	for _, x := range list {
		if x.Running && x.Main {
			return x, nil
		}
	}
	return api.SessionInfo{}, api.Refusef(api.CodeNotStarted, "`forkcell session show "+name+"` says more", "the agent of session %s does not run", quote.Line(name))
}

// maxMessage bounds what is typed at once.
const maxMessage = 64 << 10

// Programs that draw on the terminal take an Enter that follows text at once for a line
// break in a paste. So Enter waits until the program has shown a reaction to the text, at
// least enterPause and at most reactionWait.
const (
	enterPause   = 500 * time.Millisecond
	reactionWait = 2 * time.Second
)

// Send types a message on the terminal of a command, and presses Enter if asked. It
// returns how much was typed, and whether the program has shown something since.
func Send(ctx context.Context, e Attacher, name, command, text string, enter bool) (api.SentMessage, error) {
	sent := api.SentMessage{SessionID: name}
	if text == "" && !enter || len(text) > maxMessage {
		return sent, api.Usagef("", "a message has 1 to %d bytes", maxMessage)
	}
	if strings.IndexFunc(text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) >= 0 {
		return sent, api.Usagef("send plain text", "the message holds a control character")
	}
	typed := &scriptedTerminal{ctx: ctx, parts: [][]byte{[]byte(text)}, shown: make(chan struct{}, 1)}
	if enter {
		typed.parts = append(typed.parts, []byte("\r"))
	}
	_, err := e.Attach(ctx, api.ExecRequest{Cell: name, TTY: true, Detachable: true, RawInput: true, Keyboard: api.KeyboardSend}, command, engine.Stdio{In: typed, Out: typed, Err: io.Discard})
	sent.SentBytes, sent.Confirmed = typed.sent, typed.reacted
	return sent, err
}

// scriptedTerminal types a few writes and then detaches. It is also the screen
// that shows what the program does with them.
type scriptedTerminal struct {
	ctx     context.Context
	parts   [][]byte
	sent    int
	shown   chan struct{} // gets a value when the program writes something
	reacted bool          // to everything that was typed
}

// Write notes that the program has written something.
func (t *scriptedTerminal) Write(b []byte) (int, error) {
	select {
	case t.shown <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (t *scriptedTerminal) Read(b []byte) (int, error) {
	for len(t.parts) > 0 && len(t.parts[0]) == 0 {
		t.parts = t.parts[1:]
		t.watch(len(t.parts) > 0)
	}
	if len(t.parts) == 0 {
		return 0, engine.ErrDetached
	}
	select {
	case <-t.shown: // before this is typed: no reaction
	default:
	}
	n := copy(b, t.parts[0])
	t.parts[0] = t.parts[0][n:]
	t.sent += n
	return n, nil
}

// watch waits until the program has shown a reaction to what was typed, and for the time
// that Enter must be apart if it comes next.
func (t *scriptedTerminal) watch(enterNext bool) {
	if t.sent == 0 {
		return // nothing was typed yet
	}
	var pause <-chan time.Time
	if enterNext {
		pause = time.After(enterPause)
	}
	select {
	case <-t.shown:
		t.reacted = true
	case <-time.After(reactionWait):
		t.reacted = false
		return
	case <-t.ctx.Done():
		return
	}
	if pause != nil {
		select {
		case <-pause:
		case <-t.ctx.Done():
		}
	}
}
