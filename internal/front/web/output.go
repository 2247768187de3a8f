package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
)

const (
	// tailBytes is how much of the end of a stream the page of a run shows, outputBytes
	// how much the page of the output does.
	tailBytes   = 8 << 10
	outputBytes = 256 << 10
)

// stream is the end of what a run has written.
type stream struct {
	Name  string
	Total int64
	Lines [][]part
	// Cut counts the bytes before the first line.
	Cut int64
	// Problem says why the stream cannot be read.
	Problem string
}

// outputTails returns the ends of both streams, without empty ones. The output of a run
// in another process can be read when it has ended, and is left out until then.
func (q *request) outputTails(ctx context.Context, run string) (list []stream) {
	for _, name := range []string{"stdout", "stderr"} {
		s, err := q.outputOf(ctx, run, name, tailBytes)
		if err != nil && api.KindOf(err) != api.Busy {
			s.Problem = q.problem(err)
		}
		if s.Problem != "" || err == nil && s.Total > 0 {
			list = append(list, s)
		}
	}
	return list
}

func (q *request) outputOf(ctx context.Context, run, name string, limit int) (stream, error) {
	tail := &tailWriter{limit: limit}
	err := q.engine.RunLog(ctx, run, name == "stderr", false, tail)
	return newStream(name, tail), err
}

// newStream splits the end of a stream into lines.
func newStream(name string, t *tailWriter) stream {
	text := t.text()
	s := stream{Name: name, Total: t.total, Cut: t.total - int64(len(text))}
	if text == "" {
		return s
	}
	var p pen
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		s.Lines = append(s.Lines, terminalLine(line, &p))
	}
	return s
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct {
	limit int
	kept  []byte
	total int64
}

func (t *tailWriter) Write(b []byte) (int, error) {
	t.total += int64(len(b))
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*t.limit {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.limit:]...)
	}
	return len(b), nil
}

// text returns the end, from the first whole line on if it was cut.
func (t *tailWriter) text() string {
	b := t.kept
	if len(b) > t.limit {
		b = b[len(b)-t.limit:]
	}
	if t.total > int64(len(b)) {
		if at := bytes.IndexByte(b, '\n'); at >= 0 && at < len(b)-1 {
			b = b[at+1:]
		}
	}
	return string(b)
}

// outputBody is the page of a run's output.
type outputBody struct {
	Run     *api.RunInfo
	Streams []stream
	Missing string
}

func (q *request) outputPage() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	body := outputBody{Run: info}
	for _, name := range []string{"stdout", "stderr"} {
		s, err := q.outputOf(q.Context(), info.RunID, name, outputBytes)
		if err != nil {
			body.Missing = q.problem(err)
			break
		}
		body.Streams = append(body.Streams, s)
	}
	return q.show("output", frame{Title: "Output", Nav: "cells", Body: body})
}

func (q *request) rawOutput() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	name := "stdout"
	if q.URL.Query().Get("stream") == "stderr" {
		name = "stderr"
	}
	attach(q.w.Header(), "application/octet-stream", info.RunID+"."+name+".txt")
	w := &begunWriter{w: q.w}
	err = q.engine.RunLog(q.Context(), info.RunID, name == "stderr", false, w)
	if w.begun && err != nil {
		panic(http.ErrAbortHandler) // the reader must not take a part for the whole
	}
	if err != nil {
		q.w.Header().Del("Content-Disposition")
	}
	return err
}

// begunWriter notes whether something was written.
type begunWriter struct {
	w     io.Writer
	begun bool
}

func (b *begunWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b.begun = true
	return b.w.Write(p)
}
