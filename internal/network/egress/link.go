package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// links are HTTP/1.1 connections to upstreams for GET and HEAD requests. The
// goroutine that serves the program also writes the request and reads the answer.
// http.Transport uses two more goroutines for each connection, and a short answer
// waits for each switch between them: docs/decisions/0025-own-upstream-connections.md
// has the measurement.
type links struct {
	mu sync.Mutex
	// idle are those not in use, the one that was used last at the end.
	idle []*link
	// epoch is the number of resets.
	epoch int
	// sweep closes links that were idle for too long; nil if none is idle.
	sweep *time.Timer
}

// linkKey identifies the requests that a link can be used for.
type linkKey struct {
	pool   *http.Transport // dials under the same rules for addresses
	scheme string
	addr   string
}

const (
	maxLinks    = 64
	linkLife    = 30 * time.Second
	linkBuffer  = 16 << 10
	answerBytes = 256 << 10
	maxInterim  = 5
)

// link is a connection to an upstream.
type link struct {
	net.Conn
	key linkKey
	r   *bufio.Reader
	w   *bufio.Writer
	// socket is the TCP connection below; nil if there is none.
	socket syscall.RawConn
	peer   string
	// left bounds the header of an answer.
	left int64
	// since is when it became idle.
	since time.Time
	// epoch is the epoch in which it was made.
	epoch int
}

var errHeader = errors.New("the header of the upstream's answer is too long")

func (l *link) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errHeader
	}
	n, err := l.Conn.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}

// plain reports whether a request can go over a link. http.Transport refuses
// requests whose header cannot be written unchanged.
func plain(r *http.Request, f *flight) bool {
	if !f.one || r.Body != nil || r.Method != http.MethodGet && r.Method != http.MethodHead || len(r.Header["Upgrade"]) > 0 {
		return false
	}
	for name, values := range r.Header {
		if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ':' }) {
			return false
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				return false
			}
		}
	}
	return true
}

// send sends a request over an idle link or a new one. The upstream may have
// closed an idle one; GET and HEAD requests may then be sent again.
func (o *pool) send(r *http.Request, f *flight, t *http.Transport) (*http.Response, error) {
	key := linkKey{t, r.URL.Scheme, r.URL.Host}
	for {
		l := o.links.take(key)
		fresh := l == nil
		if fresh {
			var err error
			if l, err = o.connect(r.Context(), key); err != nil {
				return nil, err
			}
		}
		f.peer.Store(&l.peer)
		res, begun, err := o.links.exchange(l, r)
		if err == nil || fresh || begun || r.Context().Err() != nil {
			return res, err
		}
	}
}

// connect makes a new link.
func (o *pool) connect(ctx context.Context, key linkKey) (*link, error) {
	epoch := o.links.now()
	dial := key.pool.DialContext
	if key.scheme == "https" {
		dial = key.pool.DialTLSContext
	}
	c, err := dial(ctx, "tcp", key.addr)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: c, key: key, epoch: epoch, peer: c.RemoteAddr().String()}
	l.r, l.w = bufio.NewReaderSize(l, linkBuffer), bufio.NewWriter(c)
	l.socket, _ = socket(c)
	return l, nil
}

// exchange sends a request and reads the answer's header. It reports whether the
// upstream has begun to answer.
func (s *links) exchange(l *link, r *http.Request) (res *http.Response, begun bool, err error) {
	stop := context.AfterFunc(r.Context(), func() { _ = l.Close() })
	defer func() {
		if err != nil {
			stop()
			_ = l.Close()
		}
	}()
	l.left = answerBytes
	if err := r.Write(l.w); err != nil {
		return nil, false, err
	}
	if err := l.w.Flush(); err != nil {
		return nil, false, err
	}
	if _, err := l.r.Peek(1); err != nil {
		return nil, false, err
	}
	for range maxInterim + 1 {
		if res, err = http.ReadResponse(l.r, r); err != nil {
			return nil, true, err
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	if res.StatusCode < 200 {
		return nil, true, errors.New("the upstream answers with another protocol, or with too many interim answers")
	}
	l.left = math.MaxInt64
	b := &linkBody{ReadCloser: res.Body, s: s, l: l, stop: stop, keep: !res.Close}
	if res.Body == http.NoBody {
		b.whole = true
		return res, true, b.Close()
	}
	res.Body = b
	return res, true, nil
}

// linkBody is the body of an answer. When it is closed its link becomes idle, or
// is closed if there is more to read on it.
type linkBody struct {
	io.ReadCloser
	s    *links
	l    *link
	stop func() bool
	// keep says that the upstream keeps the connection open, whole that the body
	// was read to its end.
	keep, whole, closed bool
}

func (b *linkBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

func (b *linkBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.stop() && b.whole && b.keep && b.l.empty() {
		b.s.put(b.l)
	} else {
		_ = b.l.Close()
	}
	return nil
}

// empty reports whether everything that was read from the network has been used.
func (l *link) empty() bool {
	if l.r.Buffered() > 0 {
		return false
	}
	secure, ok := l.Conn.(*tls.Conn)
	if !ok {
		return true
	}
	// TLS may hold a record. After the deadline nothing is read from the network.
	_ = secure.SetReadDeadline(time.Unix(1, 0))
	var b [1]byte
	n, err := secure.Read(b[:])
	_ = secure.SetReadDeadline(time.Time{})
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// take returns an idle link on which nothing has come since it was put back:
// neither an end nor an answer without a request, which would be taken for the
// answer to the next one. It returns nil if there is none.
func (s *links) take(key linkKey) *link {
	for {
		l := s.takeLast(key)
		if l == nil || time.Since(l.since) < linkLife && isQuiet(l.socket) {
			return l
		}
		_ = l.Close()
	}
}

// takeLast removes the idle link for a key that was used last and returns it.
func (s *links) takeLast(key linkKey) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range slices.Backward(s.idle) {
		if l.key == key {
			s.idle = slices.Delete(s.idle, i, i+1)
			return l
		}
	}
	return nil
}

// put makes a link idle, or closes it if there are too many or it was made before
// the last reset.
func (s *links) put(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.epoch != s.epoch || len(s.idle) >= maxLinks {
		_ = l.Close()
		return
	}
	l.since = time.Now()
	s.idle = append(s.idle, l)
	if s.sweep == nil {
		s.sweep = time.AfterFunc(linkLife, s.closeOld)
	}
}

// closeOld closes links that were idle for too long.
func (s *links) closeOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 && time.Since(s.idle[0].since) >= linkLife {
		_ = s.idle[0].Close()
		s.idle = slices.Delete(s.idle, 0, 1)
	}
	s.sweep = nil
	if len(s.idle) > 0 {
		s.sweep = time.AfterFunc(linkLife, s.closeOld)
	}
}

func (s *links) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// reset closes every idle link, and the others when they become idle.
func (s *links) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	for _, l := range s.idle {
		_ = l.Close()
	}
	s.idle = nil
	if s.sweep != nil {
		s.sweep.Stop()
		s.sweep = nil
	}
}
