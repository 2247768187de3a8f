package mcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
)

// maxEvent bounds one line of a stream of events.
const maxEvent = 4 << 20

// eachEvent reads a stream of server-sent events. A comment, by which the API shows
// that it is there, is an event without a name.
func eachEvent(r io.Reader, fn func(name string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	name := ""
	for lines.Scan() {
		line := lines.Text()
		var err error
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			name = text
		} else if text, ok := strings.CutPrefix(line, "data: "); ok {
			err = fn(name, []byte(text))
		} else if strings.HasPrefix(line, ":") {
			err = fn("", nil)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// errCut is the error of a stream that ended before its result.
var errCut = errors.New("the stream ended before the result")

// followResult reads events until the result, which it decodes. seen is called for
// all events before.
func followResult(r io.Reader, result any, seen func(name string, data []byte) error) error {
	ended := false
	err := eachEvent(r, func(name string, data []byte) error {
		switch name {
		case "problem":
			var p api.Problem
			if err := json.Unmarshal(data, &p); err != nil {
				return err
			}
			return errorOf(p)
		case "result":
			ended = true
			return json.Unmarshal(data, result)
		}
		return seen(name, data)
	})
	if err == nil && !ended {
		err = errCut
	}
	return err
}

// followCommand reads the events of a command until its result, and keeps its output.
func followCommand(r io.Reader, out *output, result any, seen func()) error {
	return followResult(r, result, func(name string, data []byte) error {
		defer seen()
		if name != "stdout" && name != "stderr" {
			return nil
		}
		var part struct {
			Data []byte `json:"data"`
		}
		if err := json.Unmarshal(data, &part); err != nil {
			return err
		}
		out.of(name).write(part.Data)
		return nil
	})
}
