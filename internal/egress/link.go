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
	"strings"
	"sync"
	"time"
)

// links are connections to upstreams for the plainest requests: GET and HEAD in
// HTTP/1.1. The goroutine that serves the program sends the request and reads the
// answer itself. http.Transport has two more for each connection, and handing
// over between them takes longer than everything else about a short answer.
type links struct {
	mu   sync.Mutex
	idle map[linkKey][]*link
	n    int
	// epoch is the number of resets.
	epoch int
	// sweep closes those that nobody has used for long; nil if there are none.
	sweep *time.Timer
}

// linkKey says for what a connection is good.
type linkKey struct {
	pool   *http.Transport // whose rules for addresses it was dialled under
	scheme string
	addr   string
}

const (
	maxLinks    = 256
	maxEach     = 32
	linkLife    = 30 * time.Second
	linkBuffer  = 16 << 10
	answerBytes = 256 << 10
	maxInterim  = 5
)

// link is a connection to an upstream.
type link struct {
	net.Conn
	key  linkKey
	r    *bufio.Reader
	w    *bufio.Writer
	peer string
	// left bounds the header of an answer.
	left int64
	// since is when it became idle.
	since time.Time
	// epoch is that in which it was made.
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

// plain reports whether a request can go over a link. A header that cannot be
// written as it is, is the transport's to refuse.
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

// send sends a request over a link that is idle, or a new one. An idle one may
// have been closed meanwhile; these requests may be sent again.
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

// connect makes a link.
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
		b.end(true)
		return res, true, nil
	}
	res.Body = b
	return res, true, nil
}

// linkBody is the body of an answer. At its end the link can be used again.
type linkBody struct {
	io.ReadCloser
	s    *links
	l    *link
	stop func() bool
	keep bool
	once sync.Once
}

func (b *linkBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close ends the link if there is more to read on it.
func (b *linkBody) Close() error {
	b.end(false)
	return nil
}

func (b *linkBody) end(whole bool) {
	b.once.Do(func() {
		if b.stop() && whole && b.keep && b.l.r.Buffered() == 0 {
			b.s.put(b.l)
			return
		}
		_ = b.l.Close()
	})
}

// take returns an idle link on which nothing has come since: neither an end nor
// an answer that nobody asked for, which would be taken for that to the next
// request.
func (s *links) take(key linkKey) *link {
	for {
		s.mu.Lock()
		list := s.idle[key]
		if len(list) == 0 {
			s.mu.Unlock()
			return nil
		}
		l := list[len(list)-1]
		list[len(list)-1] = nil
		s.idle[key] = list[:len(list)-1]
		s.n--
		s.mu.Unlock()
		if time.Since(l.since) < linkLife && quiet(l.Conn) && l.empty() {
			return l
		}
		_ = l.Close()
	}
}

// empty reports whether TLS holds nothing that it has read too much, and has
// not been asked for.
func (l *link) empty() bool {
	secure, ok := l.Conn.(*tls.Conn)
	if !ok {
		return true
	}
	// With a deadline that is over nothing is read from the network.
	_ = secure.SetReadDeadline(time.Unix(1, 0))
	var b [1]byte
	n, err := secure.Read(b[:])
	_ = secure.SetReadDeadline(time.Time{})
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

func (s *links) put(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.epoch != s.epoch || s.n >= maxLinks || len(s.idle[l.key]) >= maxEach {
		_ = l.Close()
		return
	}
	if s.idle == nil {
		s.idle = map[linkKey][]*link{}
	}
	l.since = time.Now()
	s.idle[l.key] = append(s.idle[l.key], l)
	s.n++
	if s.sweep == nil {
		s.sweep = time.AfterFunc(linkLife, s.old)
	}
}

// old closes links that have been idle for too long.
func (s *links) old() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.sweep = 0, nil
	for key, list := range s.idle {
		young := list[:0]
		for _, l := range list {
			if time.Since(l.since) < linkLife {
				young = append(young, l)
			} else {
				_ = l.Close()
			}
		}
		clear(list[len(young):])
		if s.idle[key] = young; len(young) == 0 {
			delete(s.idle, key)
		}
		s.n += len(young)
	}
	if s.n > 0 {
		s.sweep = time.AfterFunc(linkLife, s.old)
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
	for _, list := range s.idle {
		for _, l := range list {
			_ = l.Close()
		}
	}
	s.idle, s.n = nil, 0
	if s.sweep != nil {
		s.sweep.Stop()
		s.sweep = nil
	}
}
