package egress

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"sync"
)

// head keeps the header of an HTTP/1.1 request whose request line names a host:
// the server then drops the Host header, which must name the same host.
type head struct {
	mu sync.Mutex
	// text is the part that was received.
	text []byte
	// passed reports that the rest is not needed.
	passed bool
}

// came receives what the program sent.
func (h *head) came(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.passed {
		return
	}
	h.text = append(h.text, b...)
	_, target, ok := bytes.Cut(h.text, []byte(" "))
	if ok && len(target) > 0 && target[0] == '/' || len(h.text) > maxHead {
		h.text, h.passed = nil, true
	}
}

// header counts the received bytes of a header, which the server keeps.
type header struct {
	mu   sync.Mutex
	done bool
	size int64
	paid int64
}

// came reports whether the account had memory for the received bytes.
func (h *header) came(n int, a *account) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return true
	}
	h.size += int64(n)
	if h.size <= freeHeader {
		return true
	}
	if due := h.size*headerFactor - h.paid; due > 0 {
		// Take more than needed now, so that it is done seldom.
		if !a.take(due + freeHeader) {
			return false
		}
		h.paid += due + freeHeader
	}
	return true
}

// end is called when the header is complete.
func (h *header) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
}

// begin is called when the request has ended and its header was dropped.
func (h *header) begin(a *account) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.give(h.paid)
	h.done, h.size, h.paid = false, 0, 0
}

// maxHead is larger than any header that the server reads.
const maxHead = 128 << 10

// begin is called when the previous request has been answered.
func (h *head) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text, h.passed = nil, false
}

// hosts returns the Host headers of a request. It returns none for a request
// that was received together with the previous one, because its beginning is
// not known.
func (h *head) hosts(r *http.Request) []string {
	h.mu.Lock()
	text := h.text
	h.text, h.passed = nil, true
	h.mu.Unlock()
	if len(text) == 0 {
		return nil
	}
	p := textproto.NewReader(bufio.NewReader(bytes.NewReader(text)))
	line, err := p.ReadLine()
	if err != nil || line != r.Method+" "+r.RequestURI+" "+r.Proto {
		return nil
	}
	header, err := p.ReadMIMEHeader()
	if err != nil {
		return nil
	}
	return header["Host"]
}
