package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// The protocol versions that this program supports.
const (
	protocolMin = 1
	protocolMax = 1
)

// hello opens a connection. It is the only message whose unknown fields are
// ignored: it comes before a version is agreed on.
type hello struct {
	// Min and Max are the versions that the client supports; the server answers
	// with the chosen one in both.
	Min int `json:"min"`
	Max int `json:"max"`
	// Version is the program's, for messages.
	Version string `json:"version"`
}

// choose returns the highest version that both sides support.
func choose(client hello, version string) (int, error) {
	v := min(client.Max, protocolMax)
	if v < max(client.Min, protocolMin) {
		return 0, &api.Error{
			Kind: api.Refused, Code: api.CodeProtocolMismatch,
			Message: fmt.Sprintf("the cell's supervisor (forkcell %s) supports %s of the live protocol, this program (forkcell %s) %s",
				version, versions(protocolMin, protocolMax), client.Version, versions(client.Min, client.Max)),
			Hint: "stop the cell with the version that started it, or use that version",
		}
	}
	return v, nil
}

func versions(low, high int) string {
	if low == high {
		return fmt.Sprintf("version %d", low)
	}
	return fmt.Sprintf("versions %d to %d", low, high)
}

// request is the one request of a connection: one field is set.
type request struct {
	Exec      *command       `json:"exec,omitempty"`
	Attach    *attachRequest `json:"attach,omitempty"`
	Call      *callRequest   `json:"call,omitempty"`
	Sessions  bool           `json:"sessions,omitempty"`
	Processes bool           `json:"processes,omitempty"`
}

func (r *request) check() error {
	n := 0
	for _, set := range []bool{r.Exec != nil, r.Attach != nil, r.Call != nil, r.Sessions, r.Processes} {
		if set {
			n++
		}
	}
	if n != 1 {
		return protocolError("a request for %d things: one is needed", n)
	}
	return nil
}

type attachRequest struct {
	Session string `json:"session"`
	// Size becomes the terminal's, unless it is zero.
	Size     api.WindowSize `json:"size"`
	Keyboard api.Keyboard   `json:"keyboard,omitempty"`
}

type callRequest struct {
	Method  string          `json:"method"`
	Request json.RawMessage `json:"request,omitempty"`
}

// startAnswer is the answer to exec and attach.
type startAnswer struct {
	Session sessionMessage `json:"session"`
	// Window is the number of input bytes that the client may send before it
	// gets credit.
	Window int `json:"window"`
}

type windowMessage struct {
	Bytes int `json:"bytes"`
}

type signalMessage struct {
	Signal int `json:"signal"`
}

type outputEndMessage struct {
	Stderr bool `json:"stderr"`
}

type sessionsResult struct {
	Sessions []sessionMessage `json:"sessions"`
}

type processesResult struct {
	Processes []processMessage `json:"processes"`
}

type callResult struct {
	Result json.RawMessage `json:"result,omitempty"`
}

// command is a Command on the wire: JSON strings cannot hold arbitrary bytes.
type command struct {
	Args       [][]byte       `json:"args"`
	Env        [][]byte       `json:"env,omitempty"`
	Workdir    []byte         `json:"workdir,omitempty"`
	User       []byte         `json:"user,omitempty"`
	TTY        bool           `json:"tty,omitempty"`
	Size       api.WindowSize `json:"size"`
	Stdin      bool           `json:"stdin,omitempty"`
	Timeout    time.Duration  `json:"timeout_ns,omitempty"`
	Detachable bool           `json:"detachable,omitempty"`
	Main       bool           `json:"main,omitempty"`
}

func newCommand(c Command) *command {
	return &command{
		Args: toBytes(c.Args), Env: toBytes(c.Env), Workdir: []byte(c.Workdir), User: []byte(c.User),
		TTY: c.TTY, Size: c.Size, Stdin: c.Stdin, Timeout: c.Timeout, Detachable: c.Detachable, Main: c.Main,
	}
}

// command converts the message, and refuses what no Host could start.
func (c *command) command() (Command, error) {
	out := Command{
		Args: toStrings(c.Args), Env: toStrings(c.Env), Workdir: string(c.Workdir), User: string(c.User),
		TTY: c.TTY, Size: c.Size, Stdin: c.Stdin, Timeout: c.Timeout, Detachable: c.Detachable, Main: c.Main,
	}
	bad := func(what string) (Command, error) {
		return Command{}, &api.Error{Kind: api.Usage, Code: api.CodeUsage, Message: "exec: " + what}
	}
	if len(out.Args) == 0 || out.Args[0] == "" {
		return bad("no command")
	}
	if out.Timeout < 0 {
		return bad("a negative time-out")
	}
	for _, list := range [][]string{out.Args, out.Env, {out.Workdir, out.User}} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return bad(fmt.Sprintf("a zero byte in %q", s))
			}
		}
	}
	return out, nil
}

type sessionMessage struct {
	ID         string    `json:"id"`
	Args       [][]byte  `json:"args"`
	ArgsCut    bool      `json:"args_cut,omitempty"`
	TTY        bool      `json:"tty,omitempty"`
	Detachable bool      `json:"detachable,omitempty"`
	Main       bool      `json:"main,omitempty"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended,omitzero"`
	Exit       Exit      `json:"exit"`
	Clients    int       `json:"clients"`
	Output     uint64    `json:"output"`
	Kept       uint64    `json:"kept"`
}

func newSessionMessage(s Session) sessionMessage {
	return sessionMessage{
		ID: s.ID, Args: toBytes(s.Args), ArgsCut: s.ArgsCut, TTY: s.TTY, Detachable: s.Detachable, Main: s.Main,
		Started: s.Started, Ended: s.Ended, Exit: s.Exit, Clients: s.Clients, Output: s.Output, Kept: s.Kept,
	}
}

func (m sessionMessage) session() Session {
	return Session{
		ID: m.ID, Args: toStrings(m.Args), ArgsCut: m.ArgsCut, TTY: m.TTY, Detachable: m.Detachable, Main: m.Main,
		Started: m.Started, Ended: m.Ended, Exit: m.Exit, Clients: m.Clients, Output: m.Output, Kept: m.Kept,
	}
}

type processMessage struct {
	PID     int           `json:"pid"`
	PPID    int           `json:"ppid"`
	UID     int           `json:"uid"`
	State   string        `json:"state"`
	Session string        `json:"session,omitempty"`
	Started time.Time     `json:"started"`
	CPU     time.Duration `json:"cpu_ns"`
	RSS     int64         `json:"rss"`
	Args    [][]byte      `json:"args"`
}

func newProcessMessage(p ProcessInfo) processMessage {
	return processMessage{
		PID: p.PID, PPID: p.PPID, UID: p.UID, State: p.State, Session: p.Session,
		Started: p.Started, CPU: p.CPU, RSS: p.RSS, Args: toBytes(p.Args),
	}
}

func (m processMessage) process() ProcessInfo {
	return ProcessInfo{
		PID: m.PID, PPID: m.PPID, UID: m.UID, State: m.State, Session: m.Session,
		Started: m.Started, CPU: m.CPU, RSS: m.RSS, Args: toStrings(m.Args),
	}
}

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
