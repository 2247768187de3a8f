package execsocket

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// The channels of binary messages: their first byte.
const (
	channelStdin = iota
	channelStdout
	channelStderr
)

// Message is a text message of the daemon.
type Message struct {
	Type     string         `json:"type"` // one of types
	ExecID   string         `json:"exec_id,omitempty"`
	RunID    string         `json:"run_id,omitempty"`
	ExitCode *int           `json:"exit_code,omitempty"`
	Signal   *string        `json:"signal,omitempty"`
	TimedOut bool           `json:"timed_out,omitempty"`
	Killed   bool           `json:"killed,omitempty"`
	EndedBy  string         `json:"ended_by,omitempty"`
	Result   *api.RunResult `json:"result,omitempty"`
	Problem  *api.Problem   `json:"problem,omitempty"`
	Bytes    int            `json:"bytes,omitempty"`
}

// types are the types of the daemon's messages.
func types() map[string]execwire.Kind {
	return map[string]execwire.Kind{
		"started": execwire.Started, "exit": execwire.Exit, "result": execwire.Result, "problem": execwire.Error, "stdin_read": execwire.Window,
	}
}

// Frame returns the frame of a message.
func (m Message) Frame() (execwire.Frame, error) {
	text, err := json.Marshal(m)
	return execwire.Frame{Kind: types()[m.Type], Data: text, Bytes: m.Bytes}, err
}

// callerMessage is a text message of the caller.
type callerMessage struct {
	Type string  `json:"type"`
	Cols *uint16 `json:"cols,omitempty"`
	Rows *uint16 `json:"rows,omitempty"`
	Name string  `json:"name,omitempty"`
}

// message returns the message of a frame; none if there is no such message.
func message(f execwire.Frame) (kind websocket.MessageType, data []byte, err error) {
	text := func(m any) (websocket.MessageType, []byte, error) {
		data, err := json.Marshal(m)
		return websocket.MessageText, data, err
	}
	switch f.Kind {
	case execwire.Stdin:
		return websocket.MessageBinary, append([]byte{channelStdin}, f.Data...), nil
	case execwire.Stdout:
		return websocket.MessageBinary, append([]byte{channelStdout}, f.Data...), nil
	case execwire.Stderr:
		return websocket.MessageBinary, append([]byte{channelStderr}, f.Data...), nil
	case execwire.StdinEnd:
		return text(callerMessage{Type: "stdin_closed"})
	case execwire.OutputEnd: // the signal that a command gets whose output nobody takes
		return text(callerMessage{Type: "signal", Name: "PIPE"})
	case execwire.Resize:
		return text(callerMessage{Type: "resize", Cols: &f.Size.Cols, Rows: &f.Size.Rows})
	case execwire.Signal:
		return text(callerMessage{Type: "signal", Name: f.Signal})
	case execwire.Window:
		return text(Message{Type: "stdin_read", Bytes: f.Bytes})
	case execwire.Started, execwire.Exit, execwire.Result, execwire.Error:
		return websocket.MessageText, f.Data, nil
	default:
		return 0, nil, fmt.Errorf("%w: no message has type %d", execwire.ErrFrame, f.Kind)
	}
}

// parseHost reads a message of the daemon. Messages and fields that it does not know are of
// a later version.
func parseHost(kind websocket.MessageType, data []byte) (execwire.Frame, error) {
	if kind == websocket.MessageBinary {
		if len(data) == 0 || data[0] != channelStdout && data[0] != channelStderr {
			return execwire.Frame{}, fmt.Errorf("%w: output of an unknown stream", execwire.ErrFrame)
		}
		stream := execwire.Stdout
		if data[0] == channelStderr {
			stream = execwire.Stderr
		}
		return execwire.Frame{Kind: stream, Data: data[1:]}, nil
	}
	var m struct {
		Type  string `json:"type"`
		Bytes int    `json:"bytes"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return execwire.Frame{}, fmt.Errorf("%w: %w", execwire.ErrMessage, err)
	}
	return execwire.Frame{Kind: types()[m.Type], Data: data, Bytes: m.Bytes}, nil
}

// parseCaller reads a message of a caller, as strictly as bodies of requests are read.
func parseCaller(kind websocket.MessageType, data []byte) (execwire.Frame, error) {
	if kind == websocket.MessageBinary {
		if len(data) == 0 || data[0] != channelStdin {
			return execwire.Frame{}, fmt.Errorf("%w: a caller sends on channel 0", execwire.ErrFrame)
		}
		return execwire.Frame{Kind: execwire.Stdin, Data: data[1:]}, nil
	}
	var m callerMessage
	if err := readExactly(data, &m); err != nil {
		return execwire.Frame{}, fmt.Errorf("%w: %w", execwire.ErrMessage, err)
	}
	switch {
	case m.Type == "resize" && m.Cols != nil && m.Rows != nil:
		return execwire.Frame{Kind: execwire.Resize, Size: api.WindowSize{Cols: *m.Cols, Rows: *m.Rows}}, nil
	case m.Type == "signal" && m.Name != "":
		return execwire.Frame{Kind: execwire.Signal, Signal: m.Name}, nil
	case m.Type == "stdin_closed":
		return execwire.Frame{Kind: execwire.StdinEnd}, nil
	}
	return execwire.Frame{}, fmt.Errorf("%w: unknown type, or a field is missing", execwire.ErrMessage)
}

// readExactly reads the message of a caller: with names of fields as they are written, none
// twice and none null.
func readExactly(text []byte, m *callerMessage) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(errors.New("no object"), err)
	}
	fields := map[string]any{"type": &m.Type, "cols": &m.Cols, "rows": &m.Rows, "name": &m.Name}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		text, _ := name.(string)
		field := fields[text]
		if field == nil || string(value) == "null" {
			return fmt.Errorf("the field %q is unknown, there twice, or null", text)
		}
		if err := json.Unmarshal(value, field); err != nil {
			return err
		}
		delete(fields, text)
	}
	if _, err := d.Token(); err != nil { // the end of the object
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the message")
	}
	return nil
}
