package session

import (
	"context"
	"io"
	"strings"
	"unicode"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/quote"
)

// Attacher joins commands of live cells.
type Attacher interface {
	Attach(ctx context.Context, r api.ExecRequest, session string, io cell.Stdio) (*api.ExecResult, error)
}

// Lister lists the commands of live cells.
type Lister interface {
	Sessions(ctx context.Context, cell string) ([]api.SessionInfo, error)
}

// Command returns the agent's command in a live session.
func Command(ctx context.Context, e Lister, name string) (api.SessionInfo, error) {
	list, err := e.Sessions(ctx, name)
	if err != nil && api.CodeOf(err) != api.CodeNotStarted {
		return api.SessionInfo{}, api.WithHint(err, api.CodeNotFound, "`forkcell session list` shows them")
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

// Send types a message on the terminal of a command, and presses Enter if asked. It
// returns how many bytes were typed. Programs that draw on the terminal take text that
// arrives together with Enter for a paste, so the two are written one after the other.
func Send(ctx context.Context, e Attacher, name, command, text string, enter bool) (int, error) {
	if text == "" && !enter || len(text) > maxMessage {
		return 0, api.Usagef("", "a message has 1 to %d bytes", maxMessage)
	}
	if strings.IndexFunc(text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) >= 0 {
		return 0, api.Usagef("send plain text", "the message holds a control character")
	}
	typed := &typist{parts: [][]byte{[]byte(text)}}
	if enter {
		typed.parts = append(typed.parts, []byte("\r"))
	}
	_, err := e.Attach(ctx, api.ExecRequest{Cell: name, TTY: true, Detachable: true, RawInput: true, Keyboard: api.KeyboardSend}, command, cell.Stdio{In: typed, Out: io.Discard, Err: io.Discard})
	return typed.sent, err
}

// typist is an input of a few writes, after which its caller leaves.
type typist struct {
	parts [][]byte
	sent  int
}

func (t *typist) Read(b []byte) (int, error) {
	for len(t.parts) > 0 && len(t.parts[0]) == 0 {
		t.parts = t.parts[1:]
	}
	if len(t.parts) == 0 {
		return 0, cell.ErrDetached
	}
	n := copy(b, t.parts[0])
	t.parts[0] = t.parts[0][n:]
	t.sent += n
	return n, nil
}
