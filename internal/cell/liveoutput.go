package cell

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/live"
	"github.com/forkcell/forkcell/internal/redact"
)

// maxTranscript is how much of its last output a live cell shows before it is
// stopped. All of it is stored.
const maxTranscript = 1 << 20

// maxPart bounds one answer about output.
const maxPart = 256 << 10

// transcript holds the last output of all commands of a live cell, in the order
// in which it came, with secret values taken out.
type transcript struct {
	mu      sync.Mutex
	chunks  []outputChunk
	start   uint64 // place of the first byte kept
	end     uint64
	ended   bool
	changed chan struct{} // closed at the next change
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

func (t *transcript) add(stderr bool, p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for part := range slices.Chunk(p, maxPart) {
		t.chunks = append(t.chunks, outputChunk{Stderr: stderr, Data: slices.Clone(part)})
	}
	t.end += uint64(len(p))
	for t.end-t.start > maxTranscript {
		t.start += uint64(len(t.chunks[0].Data))
		t.chunks = t.chunks[1:]
	}
	t.wake()
}

func (t *transcript) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *transcript) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.wake()
}

// read returns what there is from a place on, or with wait, once there is some.
func (t *transcript) read(ctx context.Context, from uint64, wait bool) (*outputPart, error) {
	for {
		part, changed := t.part(from)
		if len(part.Chunks) > 0 || part.Ended || !wait {
			return part, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (t *transcript) part(from uint64) (*outputPart, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &outputPart{Next: min(from, t.end), Chunks: []outputChunk{}}
	if p.Next < t.start {
		p.Skipped, p.Next = t.start-p.Next, t.start
	}
	at, size := t.start, 0
	for _, c := range t.chunks {
		next := at + uint64(len(c.Data))
		if next > p.Next {
			c.Data = c.Data[p.Next-at:]
			if size > 0 && size+len(c.Data) > maxPart {
				break
			}
			p.Chunks, p.Next, size = append(p.Chunks, c), next, size+len(c.Data)
		}
		at = next
	}
	p.Ended = t.ended && p.Next == t.end
	return p, t.changed
}

// tap keeps what a command prints, each stream with secret values of its own
// environment taken out, while it passes everything on untouched.
func (l *liveCell) tap(to live.Streams, env []string) (out, err io.Writer, finish func()) {
	_, secrets := redact.Env(append(slices.Clone(l.r.spec.Env), env...))
	secrets = append(secrets, l.r.credentials()...)
	stdout := redact.NewWriter(kept{l, 0}, secrets)
	stderr := redact.NewWriter(kept{l, 1}, secrets)
	return &liveTee{stdout, to.Out}, &liveTee{stderr, to.Err}, func() {
		_, _ = stdout.Close(), stderr.Close() // a failure to keep is noted by kept
	}
}

type liveTee struct {
	keep io.Writer
	to   io.Writer
}

func (t *liveTee) Write(p []byte) (int, error) {
	_, _ = t.keep.Write(p) // the loss is noted where it happens
	return t.to.Write(p)
}

// kept is the place of all output of one kind.
type kept struct {
	l      *liveCell
	stream int
}

func (k kept) Write(p []byte) (int, error) {
	k.l.log.add(k.stream == 1, p)
	k.l.r.out.store(k.stream, p)
	return len(p), nil
}

// store keeps output that holds no secrets any more, up to the limit.
func (o *output) store(i int, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(o.blobs[i], p)
}

// output answers who wants to see what the cell's commands printed.
func (l *liveCell) output(ctx context.Context, q outputCall) (*outputPart, error) {
	if q.Run != "" && q.Run != l.r.rec.ID {
		return nil, api.Missing("live run", q.Run, "`forkcell log "+l.r.cell.Name+"` shows the runs")
	}
	return l.log.read(ctx, q.From, q.Wait)
}

// FollowLogs writes the output of a live cell: what is kept of it, and with
// follow, what comes until the cell is stopped. It says false if the run that is
// meant is not that of a live cell.
func (e *Engine) FollowLogs(ctx context.Context, cell, run string, follow bool, stdout, stderr io.Writer) (isLive bool, err error) {
	c, err := e.findCell(cell)
	if err != nil {
		return false, err
	}
	info := e.liveInfo(ctx, c, false)
	if info == nil {
		return false, nil
	}
	if !strings.HasPrefix(info.RunID, run) {
		return false, nil
	}
	client, err := e.dialLive(ctx, cell)
	if err != nil {
		return true, err
	}
	q := outputCall{Run: info.RunID, Wait: follow}
	for {
		var part outputPart
		err := call(ctx, client, cell, callOutput, q, &part)
		if q.From != 0 && errors.Is(err, live.ErrNoServer) {
			err = lostLive(cell, err)
		}
		if err != nil {
			return true, err
		}
		for _, chunk := range part.Chunks {
			to := stdout
			if chunk.Stderr {
				to = stderr
			}
			if _, err := to.Write(chunk.Data); err != nil {
				return true, err
			}
		}
		if part.Ended || !follow && len(part.Chunks) == 0 {
			return true, nil
		}
		q.From = part.Next
	}
}
