package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/sse"
)

// follow sends a call whose answer is a stream, and returns the result at its end. take
// handles the other events.
func follow[T any](ctx context.Context, c *Client, in *call, take func(sse.Event) error) (*T, error) {
	var doc *T
	err := c.events(ctx, in, func(m sse.Event) error {
		if m.Name != "result" {
			return take(m)
		}
		doc = new(T)
		return errors.Join(decode(m, doc), errEnough)
	})
	if doc != nil && errors.Is(err, errEnough) {
		return doc, nil
	}
	return nil, err
}

// errEnough ends a stream that has more.
var errEnough = errors.New("enough")

// events sends a call whose answer is a stream of events, and passes them to take. It
// returns the error of take, of a problem in the stream, or of its end.
func (c *Client) events(ctx context.Context, in *call, take func(sse.Event) error) error {
	in.header.Set("Accept", "text/event-stream")
	resp, err := c.send(ctx, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for stream := sse.NewReader(resp.Body); ; {
		m, err := stream.Next()
		switch {
		case err != nil:
			return lost(ctx, in, err)
		case m.Name == "problem":
			var p api.Problem
			if err := decode(m, &p); err != nil {
				return err
			}
			return problemError(p)
		}
		if err := take(m); err != nil {
			return err
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
	return fmt.Errorf("%s %s: the stream was cut: %w", in.method, in.path, err)
}

func decode(m sse.Event, doc any) error {
	if err := readDocument(m.Data, doc); err != nil {
		return fmt.Errorf("the event %s: %w", m.Name, err)
	}
	return nil
}

// recorder handles the events of a command.
type recorder struct {
	stdout, stderr record
	started        func(id string)
}

func newRecorder(in *call) *recorder {
	return &recorder{stdout: record{copy: in.stdout}, stderr: record{copy: in.stderr}, started: in.started}
}

// take handles an event. Events that it does not know belong to later versions.
func (r *recorder) take(m sse.Event) error {
	switch m.Name {
	case "started":
		var doc struct {
			RunID  string `json:"run_id"`
			ExecID string `json:"exec_id"`
		}
		err := decode(m, &doc)
		if err == nil && r.started != nil {
			r.started(doc.RunID + doc.ExecID)
		}
		return err
	case "stdout":
		return r.stdout.take(m)
	case "stderr":
		return r.stderr.take(m)
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

func (r *record) take(m sse.Event) error {
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
	return api.OutputText(r.data, r.cut)
}
