package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
)

// follow sends a call whose answer is a stream of output, and returns the result at
// its end.
func follow[T any](ctx context.Context, c *Client, in *call, out *recorder) (*T, error) {
	in.header.Set("Accept", "text/event-stream")
	out.stdout.copy, out.stderr.copy = in.stdout, in.stderr
	resp, err := c.send(ctx, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	for stream := newMessages(resp.Body); ; {
		m, err := stream.next()
		if err != nil {
			return nil, lost(ctx, in, err)
		}
		if m.name == "result" {
			doc := new(T)
			return doc, decode(m, doc)
		}
		if err := out.take(m, in.started); err != nil {
			return nil, err
		}
	}
}

// lost returns the error of a stream that ended before its result.
func lost(ctx context.Context, in *call, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(cause, ctx.Err())
	} else if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s %s: the stream ended before the result: %w", in.method, in.path, err)
}

func decode(m message, doc any) error {
	if err := json.Unmarshal(m.data, doc); err != nil {
		return fmt.Errorf("the event %s: %w", m.name, err)
	}
	return nil
}

// recorder handles the events of a command.
type recorder struct{ stdout, stderr record }

// take handles an event. Events that it does not know belong to later versions.
func (r *recorder) take(m message, started func(id string)) error {
	switch m.name {
	case "started":
		var doc struct {
			RunID  string `json:"run_id"`
			ExecID string `json:"exec_id"`
		}
		err := decode(m, &doc)
		if err == nil && started != nil {
			started(doc.RunID + doc.ExecID)
		}
		return err
	case "stdout":
		return r.stdout.take(m)
	case "stderr":
		return r.stderr.take(m)
	case "problem":
		var p api.Problem
		if err := decode(m, &p); err != nil {
			return err
		}
		return problemError(p)
	}
	return nil
}

// document returns the output as an answer without a stream has it.
func (r *recorder) document() Output {
	var out Output
	out.Stdout, out.StdoutBase64 = r.stdout.text()
	out.Stderr, out.StderrBase64 = r.stderr.text()
	out.Truncated = r.stdout.cut || r.stderr.cut
	return out
}

// maxOutput bounds what is kept of one stream, as the daemon does in its answers.
const maxOutput = 1 << 20

// record copies one stream and keeps its beginning.
type record struct {
	copy io.Writer
	data []byte
	cut  bool
}

func (r *record) take(m message) error {
	var doc struct {
		Data []byte `json:"data"`
	}
	if err := decode(m, &doc); err != nil {
		return err
	}
	room := maxOutput - len(r.data)
	r.cut = r.cut || room < len(doc.Data)
	r.data = append(r.data, doc.Data[:min(room, len(doc.Data))]...)
	if r.copy == nil {
		return nil
	}
	_, err := r.copy.Write(doc.Data)
	return err
}

// text returns the bytes as text if they are UTF-8, and else as they are.
func (r *record) text() (string, []byte) {
	if utf8.Valid(r.data) {
		return string(r.data), nil
	}
	return "", r.data
}
