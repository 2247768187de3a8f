package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// exchange sends a request and copies the answer to the program as it arrives.
//
// It does what httputil.ReverseProxy does, without its copies of the request and
// with buffers that grow. Informational answers are dropped: they would be
// written while the server may be asking for the request's body, both on one
// buffer without a lock (Go 1.26), which an upstream could use. The server's own
// 100 is not affected.
func (p *Proxy) exchange(w http.ResponseWriter, out *http.Request) {
	out.Close = false
	if out.ContentLength == 0 {
		out.Body = nil // so that it can be sent again on another connection
	}
	if out.Body != nil {
		// The transport may still read the body when this function returns, and
		// the server needs it back.
		defer func() { _ = out.Body.Close() }()
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // none, instead of Go's own
	}
	res, err := p.pool.RoundTrip(out)
	if err != nil {
		p.answerFailure(w, out, err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusSwitchingProtocols {
		p.answerFailure(w, out, errors.New("the upstream switches to another protocol without a request"))
		return
	}
	oneHop(res.Header)
	// The values that oneHop keeps belong to requests, not to answers.
	for _, name := range []string{"Connection", "Te", "Upgrade"} {
		res.Header.Del(name)
	}
	if err := p.response(res); err != nil {
		p.answerFailure(w, out, err)
		return
	}
	if err := p.pass(w, res); err != nil {
		panic(http.ErrAbortHandler) // an answer without a proper end
	}
}

// pass writes an answer.
func (p *Proxy) pass(w http.ResponseWriter, res *http.Response) error {
	header, announced := w.Header(), len(res.Trailer)
	for name, values := range res.Header {
		header[name] = values
	}
	if announced > 0 {
		names := make([]string, 0, announced)
		for name := range res.Trailer {
			names = append(names, name)
		}
		slices.Sort(names)
		header["Trailer"] = []string{strings.Join(names, ", ")}
	}
	w.WriteHeader(res.StatusCode)
	if err := p.copyBody(w, res); err != nil {
		return err
	}
	_ = res.Body.Close() // which completes the trailers, and masks them
	if len(res.Trailer) == 0 {
		return nil
	}
	// Without the flush the server sets a Content-Length on a short answer and
	// drops the trailers.
	_ = http.NewResponseController(w).Flush()
	prefix := ""
	if len(res.Trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for name, values := range res.Trailer {
		if len(values) > 0 { // else it was announced and never came
			header[prefix+name] = values
		}
	}
	return nil
}

// copyBody copies an answer's body. Every part is sent to the program when it
// arrives. The header waits a moment for the first part, and the last part for
// the end, so that a short answer is sent in one piece.
func (p *Proxy) copyBody(w http.ResponseWriter, res *http.Response) error {
	if res.Body == http.NoBody {
		return nil
	}
	later := flusher{flush: http.NewResponseController(w).Flush}
	defer later.stop()
	f, left := flightOf(res.Request.Context()), res.ContentLength
	if left < 0 {
		later.start()
	}
	buf := newBuffer(left)
	defer func() {
		if len(buf) == largeBuffer {
			p.memory.give(largeBuffer)
		}
	}()
	for {
		n, err := res.Body.Read(buf)
		later.stop()
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch left -= int64(n); {
		case errors.Is(err, io.EOF) && left == 0 && f.one:
			// The program has the whole answer before the request is recorded.
			return later.flush()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case left == 0 && res.ProtoMajor == 1 && f.part == nil:
			// The next read returns the end of the body at once. Behind a part it has to
			// wait for the margin.
		case left == 0:
			later.start()
		case n > 0:
			if err := later.flush(); err != nil {
				return err
			}
		}
		if n == len(buf) && left != 0 {
			buf = p.grow(buf)
		}
	}
}

// flusher flushes an answer if no more of it is written soon.
type flusher struct {
	flush func() error
	timer *time.Timer
	// mu is held while the timer flushes.
	mu  sync.Mutex
	due bool
}

const soon = time.Millisecond

func (f *flusher) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due = true
	if f.timer != nil {
		f.timer.Reset(soon)
		return
	}
	f.timer = time.AfterFunc(soon, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.due {
			f.due = false
			_ = f.flush() // shows again with the next part
		}
	})
}

// stop waits for a running flush and prevents later ones.
func (f *flusher) stop() {
	if f.timer == nil {
		return
	}
	f.timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due = false
}

// The sizes of the buffer for an answer's body. An answer that fills the small one
// gets the large one: with HTTP/2 each part may wait for several goroutines.
const (
	smallBuffer = 16 << 10
	largeBuffer = 128 << 10
)

// newBuffer returns a small buffer for a body, whose length is -1 if unknown.
func newBuffer(length int64) []byte {
	if length > 0 && length < smallBuffer {
		return make([]byte, length)
	}
	return make([]byte, smallBuffer)
}

// grow returns a large buffer if the cell has memory left for one, else buf.
func (p *Proxy) grow(buf []byte) []byte {
	if len(buf) < largeBuffer && p.memory.take(largeBuffer) {
		return make([]byte, largeBuffer)
	}
	return buf
}

func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey).(*flight)
	return f
}
