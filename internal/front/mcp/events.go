package mcp

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/sse"
)

// errCut is the error of a stream that ended before its result.
var errCut = errors.New("the stream ended before the result")

// followResult reads events until the result, which it decodes. seen is called for
// all events before.
func followResult(r io.Reader, result any, seen func(sse.Event) error) error {
	for stream := sse.NewReader(r); ; {
		m, err := stream.Next()
		switch {
		case errors.Is(err, io.EOF):
			return errCut
		case err != nil:
			return err
		case m.Name == "result":
			return json.Unmarshal(m.Data, result)
		case m.Name == "problem":
			var p api.Problem
			if err := json.Unmarshal(m.Data, &p); err != nil {
				return err
			}
			return errorOf(p)
		}
		if err := seen(m); err != nil {
			return err
		}
	}
}

// watchedStream is a stream that calls seen whenever something arrives: also the comments by
// which the API shows that it is there.
type watchedStream struct {
	io.Reader
	seen func()
}

func (w watchedStream) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.seen()
	return n, err
}

// followCommand reads the events of a command until its result, and keeps its output.
func followCommand(r io.Reader, out *output, result any, seen func()) error {
	return followResult(watchedStream{r, seen}, result, func(m sse.Event) error {
		if m.Name != "stdout" && m.Name != "stderr" {
			return nil
		}
		var part struct {
			Data []byte `json:"data"`
		}
		if err := json.Unmarshal(m.Data, &part); err != nil {
			return err
		}
		out.of(m.Name).write(part.Data)
		return nil
	})
}
