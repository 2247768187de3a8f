package egress

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"sync"
)

// head keeps the header of a request in HTTP/1.1 whose request line names a host:
// the server then drops the Host header, which must name the same one.
type head struct {
	mu sync.Mutex
	// text is what has come of it, next the byte that the server reads ahead
	// while it answers the request before.
	text, next []byte
	// passed says that the rest is of no interest.
	passed bool
}

// came is told what the program sent. Ahead says that it is the byte that is read
// ahead.
func (h *head) came(b []byte, ahead bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ahead:
		h.next = append([]byte(nil), b...)
	case !h.passed:
		h.text = append(h.text, b...)
		_, target, ok := bytes.Cut(h.text, []byte(" "))
		if ok && len(target) > 0 && target[0] == '/' || len(h.text) > maxHead {
			h.text, h.passed = nil, true
		}
	}
}

// header counts what has come of a header, which the server keeps.
type header struct {
	mu   sync.Mutex
	done bool
	size int64
	paid int64
}

// came reports whether the account pays for what has come.
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
		// More than is due, so that it is asked for seldom.
		if !a.take(due + freeHeader) {
			return false
		}
		h.paid += due + freeHeader
	}
	return true
}

// end is called when the header has come.
func (h *header) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
}

// begin is called when the request is over and its header dropped.
func (h *header) begin(a *account) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.give(h.paid)
	h.done, h.size, h.paid = false, 0, 0
}

// maxHead is more than the server reads of a header.
const maxHead = 128 << 10

// begin is called when the request before has been answered.
func (h *head) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text, h.next, h.passed = h.next, nil, false
}

// hosts returns the Host headers of a request. It returns none for one that came
// together with the request before, whose beginning is not known.
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
