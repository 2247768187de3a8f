package cli

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// Bounds of the head of a request, by which a connection is checked.
const (
	maxHead  = 64 << 10
	headTime = 30 * time.Second
)

var (
	// errNotHTTP means that what a client sent first is no request of HTTP/1.
	errNotHTTP = errors.New("a client does not speak HTTP/1; --raw forwards every protocol")
	// errElsewhere means that a request is for another name.
	errElsewhere = errors.New("a request for another name was refused; use the link that was printed, or --raw")
)

// pageName returns a name of this host for the pages of a cell's port. It is new for each
// forwarding, and it cannot be guessed: a browser sends the cookies of a name to all of
// its ports, so under localhost the cell would get those of every application there, and
// could set them. Browsers find every name below localhost on this host.
func pageName(cell string) string {
	label := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(cell))
	label = strings.Trim(label[:min(len(label), 40)], "-")
	if label == "" {
		label = "cell"
	}
	return label + "-" + strings.ToLower(rand.Text()[:16]) + ".localhost"
}

// refuseHost answers a request for another name. It does not have the right one: any
// user of the host can ask.
const refuseHost = "HTTP/1.1 421 Misdirected Request\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n" +
	"This port shows a page of a cell only under the name that forkcell port-forward has printed.\n"

// checkedConn is a connection whose first request is for the right name.
type checkedConn struct {
	io.Reader
	io.Writer
}

// checkHost reads the head of the first request of a connection, answers it if it is not
// for host, as NAME:PORT, and returns the connection with what was read. A browser keeps
// a connection for one name, so the requests that follow are for the same.
func checkHost(conn net.Conn, host string) (io.ReadWriter, error) {
	_ = conn.SetReadDeadline(time.Now().Add(headTime)) // a socket takes deadlines
	head, err := readHead(conn)
	if err != nil {
		return nil, err
	}
	got, err := hostOf(head)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(got, host) {
		_, _ = io.WriteString(conn, refuseHost) // the client may be gone
		return nil, errElsewhere
	}
	_ = conn.SetReadDeadline(time.Time{})
	return checkedConn{io.MultiReader(bytes.NewReader(head), conn), conn}, nil
}

// readHead reads until the head of a request is complete; it may read beyond.
func readHead(r io.Reader) ([]byte, error) {
	var head []byte
	buf := make([]byte, 4<<10)
	for !bytes.Contains(head, []byte("\r\n\r\n")) {
		if len(head) > maxHead || !mayBegin(head) {
			return nil, errNotHTTP
		}
		n, err := r.Read(buf)
		head = append(head, buf[:n]...)
		if err != nil && !bytes.Contains(head, []byte("\r\n\r\n")) {
			return nil, errNotHTTP
		}
	}
	return head, nil
}

// mayBegin reports whether bytes can be the begin of a request: the capital letters of a
// method, and a space.
func mayBegin(head []byte) bool {
	for _, c := range head[:min(len(head), 16)] {
		if c == ' ' {
			return true
		}
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return len(head) < 16
}

// hostOf returns the one host that the head of a request of HTTP/1 names. A target with a
// host of its own and a line that is folded are not taken: readers differ about them.
func hostOf(head []byte) (host string, err error) {
	text, _, _ := strings.Cut(string(head), "\r\n\r\n")
	lines := strings.Split(text, "\r\n")
	words := strings.Split(lines[0], " ")
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.") {
		return "", errNotHTTP
	}
	if !strings.HasPrefix(words[1], "/") && words[1] != "*" {
		return "", nil
	}
	hosts := 0
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(name, " \t") || strings.ContainsAny(line, "\r\n\x00") {
			return "", errNotHTTP
		}
		if strings.EqualFold(name, "Host") {
			hosts++
			host = strings.Trim(value, " \t")
		}
	}
	if hosts != 1 {
		return "", nil
	}
	return host, nil
}
