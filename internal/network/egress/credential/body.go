package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Bodies of known length up to these sizes are read as a whole before the
// request is sent. Then they can be searched, and the length after replacing
// placeholders is known.
const (
	wholeInspected = 64 << 10
	wholeReplaced  = 1 << 20
)

// errLength is returned for a body that differs from its Content-Length.
var errLength = errors.New("the body is not as long as its Content-Length")

// body searches the body of a request, now or while it is read, and replaces
// placeholders where credentials allow it. It returns the reader that does so
// later, if there is one.
func (u *use) body(req *http.Request) (*bodyReader, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil //nolint:nilnil // no body, no reader: nothing went wrong
	}
	replace := u.replacesBody() && !encoded(req.Header)
	whole := int64(wholeInspected)
	if replace {
		whole = wholeReplaced
	}
	// The first bytes of a stream (-1) may take any time to arrive.
	if n := req.ContentLength; n < 0 || n > whole {
		// The names from the body are counted separately: they are known later.
		r := &bodyReader{from: req.Body, req: req, use: &use{set: u.set, to: u.to, names: map[string]bool{}, withheld: u.withheld}}
		if replace {
			r.escape = escapeFor(req.Header.Get("Content-Type"), nil)
			setLength(req, -1)
		}
		req.Body = r
		return r, nil
	}
	b, err := io.ReadAll(io.LimitReader(req.Body, req.ContentLength+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != req.ContentLength {
		return nil, errLength
	}
	_ = req.Body.Close() // it was read to its end
	if err := u.set.InspectBytes(u.to, partBody, b); err != nil {
		return nil, err
	}
	if err := u.set.inspectTrailer(req.Trailer, u.to); err != nil {
		return nil, err
	}
	if replace {
		if b, err = u.replace(b, escapeFor(req.Header.Get("Content-Type"), b)); err != nil {
			return nil, err
		}
	}
	setBody(req, b)
	return nil, nil //nolint:nilnil // the body is done with
}

func setBody(req *http.Request, b []byte) {
	req.Body = io.NopCloser(bytes.NewReader(b))
	req.GetBody = nil
	setLength(req, int64(len(b)))
}

// setLength sets the content length, and the header if there is one.
func setLength(req *http.Request, n int64) {
	req.ContentLength = n
	req.GetBody = nil
	if n < 0 {
		req.Header.Del("Content-Length")
	} else if req.Header.Get("Content-Length") != "" {
		req.Header.Set("Content-Length", strconv.FormatInt(n, 10))
	}
}

func (u *use) replacesBody() bool {
	for _, e := range u.set.entries {
		if e.ReplaceInBody && e.covers(u.to) && !u.withheld[e.Name] {
			return true
		}
	}
	return false
}

func encoded(h http.Header) bool {
	for _, v := range h.Values("Content-Encoding") {
		if v != "" && !strings.EqualFold(strings.TrimSpace(v), "identity") {
			return true
		}
	}
	return false
}

// escapeFor returns how a value is encoded in a body, so that it stays one
// value there. A body without a type is JSON if it parses as JSON.
func escapeFor(contentType string, b []byte) func(string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && kind == "application/x-www-form-urlencoded":
		return url.QueryEscape
	case err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json")), contentType == "" && json.Valid(b):
		return jsonEscape
	}
	return asIs
}

func jsonEscape(s string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	b := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	return string(b[1 : len(b)-1])
}

// bodyReader searches a body while it is read. It passes on at once what cannot
// be the start of a placeholder.
type bodyReader struct {
	from io.ReadCloser
	req  *http.Request
	use  *use
	// escape is nil where nothing is replaced.
	escape func(string) string

	tail []byte // the last bytes looked through, for what spans two reads
	held []byte // could be the start of a placeholder
	out  []byte // ready
	err  error
	buf  []byte
}

func (r *bodyReader) Read(p []byte) (int, error) {
	if r.escape == nil {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.from.Read(p)
		if r.err = r.look(p[:n], err); r.err != nil && !errors.Is(r.err, io.EOF) {
			return 0, r.err
		}
		return n, r.err
	}
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// fill reads once and moves to out what can be passed on.
func (r *bodyReader) fill() {
	if r.buf == nil {
		r.buf = make([]byte, 16<<10)
	}
	n, err := r.from.Read(r.buf)
	r.err = r.look(r.buf[:n], err)
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		return
	}
	data := append(r.held, r.buf[:n]...)
	r.held = nil
	if r.err == nil {
		at := r.use.safeLength(data)
		r.held = bytes.Clone(data[at:])
		data = data[:at]
	}
	out, bad := r.use.replace(data, r.escape)
	if bad != nil {
		r.err = bad
		return
	}
	r.out = out
}

// look returns a misuse in what was read, or else the reader's error.
func (r *bodyReader) look(b []byte, err error) error {
	r.tail = append(r.tail, b...)
	if bad := r.use.set.InspectBytes(r.use.to, partBody, r.tail); bad != nil {
		return bad
	}
	if len(r.tail) > maxEncoded {
		r.tail = append(r.tail[:0], r.tail[len(r.tail)-maxEncoded:]...)
	}
	if errors.Is(err, io.EOF) {
		if bad := r.use.set.inspectTrailer(r.req.Trailer, r.use.to); bad != nil {
			return bad
		}
	}
	return err
}

func (r *bodyReader) Close() error { return r.from.Close() }
