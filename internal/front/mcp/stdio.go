package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage is the largest message that a client may send.
const maxMessage = sdk.DefaultMaxLineLength

// Stdio returns a transport over in and out, with one message a line. A line that is no
// message is answered with an error, and the next one counts: the transport of the SDK
// would end.
func Stdio(in io.Reader, out io.Writer) sdk.Transport {
	answers := &sharedWriter{w: out}
	return &sdk.IOTransport{Reader: &messages{lines: bufio.NewReader(in), refuse: answers}, Writer: answers}
}

// messages reads lines, and passes on those that are messages.
type messages struct {
	lines  *bufio.Reader
	refuse io.Writer
	rest   []byte // of a message
}

// Close implements io.Closer. The reader belongs to the caller.
func (*messages) Close() error { return nil }

func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.line()
		if problem := checkMessage(line); problem != nil {
			if err := m.answer(line, problem); err != nil {
				return 0, err
			}
		} else {
			m.rest = line
		}
		if err != nil && len(m.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line returns the next line. Of one that is too long it returns the beginning, which has
// more than maxMessage bytes.
func (m *messages) line() (line []byte, err error) {
	for {
		part, err := m.lines.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxMessage+1-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// checkMessage returns what is wrong with a line, if it is not empty.
func checkMessage(line []byte) *jsonrpc.Error {
	switch {
	case len(line) > maxMessage:
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("a message has at most %d bytes", maxMessage)}
	case len(bytes.TrimSpace(line)) == 0:
		return nil
	case !json.Valid(line):
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not one JSON document"}
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the line is not one message: %v", err)}
	}
	return nil
}

// answer answers a line that is no message, by its id if it has one.
func (m *messages) answer(line []byte, problem *jsonrpc.Error) error {
	var asked struct {
		ID json.RawMessage `json:"id"`
	}
	if problem.Code == jsonrpc.CodeInvalidRequest {
		_ = json.Unmarshal(line, &asked) // not an object: no id
	}
	if len(asked.ID) == 0 || asked.ID[0] == '{' || asked.ID[0] == '[' {
		asked.ID = json.RawMessage("null")
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": asked.ID, "error": problem})
	if err == nil {
		_, err = m.refuse.Write(append(text, '\n'))
	}
	return err
}

// sharedWriter is a writer for more than one goroutine. Its owner closes what is below.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// Close implements io.Closer.
func (*sharedWriter) Close() error { return nil }
