package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// part is the range of bytes that a program asks for. A program could ask for a value
// in two halves, of which neither is found. So the upstream is asked for a margin on
// both sides, in which any value across the border is whole.
type part struct {
	// from is the first byte, to the last one; -1 means the end. If from is -1, the
	// last to bytes are meant.
	from, to int64
	margin   int64
}

// maxMargin bounds what is read of the margin after a part.
const maxMargin = 1 << 20

// maxOffset bounds the numbers of a range.
const maxOffset = 1 << 53

// azureRange is the name that clients of Azure's storage use for Range.
const azureRange = "X-Ms-Range"

// widen changes the range that a request asks for, and returns the one it asked for.
// Any other range than a single one of bytes is taken out: then the answer is whole.
func widen(out *http.Request, margin int) *part {
	name, asked := "Range", out.Header["Range"]
	if own := out.Header[azureRange]; len(own) > 0 {
		name, asked = azureRange, own // which comes first there
	}
	delete(out.Header, "Range")
	delete(out.Header, azureRange)
	delete(out.Header, "Request-Range") // the old name
	p, ok := parsePart(asked)
	if !ok || out.Method != http.MethodGet {
		delete(out.Header, "If-Range")
		return nil
	}
	p.margin = int64(margin)
	switch {
	case p.from < 0:
		out.Header[name] = []string{fmt.Sprintf("bytes=-%d", p.to+p.margin)}
	case p.to < 0:
		out.Header[name] = []string{fmt.Sprintf("bytes=%d-", max(0, p.from-p.margin))}
	default:
		out.Header[name] = []string{fmt.Sprintf("bytes=%d-%d", max(0, p.from-p.margin), p.to+p.margin)}
	}
	return &p
}

func parsePart(asked []string) (p part, ok bool) {
	if len(asked) != 1 {
		return p, false
	}
	unit, text, _ := strings.Cut(asked[0], "=")
	first, last, ok := strings.Cut(strings.TrimSpace(text), "-")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return p, false
	}
	p.from, p.to, ok = -1, -1, true
	if first != "" {
		p.from, ok = offset(first)
	}
	if ok && last != "" {
		p.to, ok = offset(last)
	}
	switch {
	case p.from < 0:
		ok = ok && p.to > 0
	case p.to >= 0:
		ok = ok && p.from <= p.to
	}
	return p, ok
}

// offset reads a number of a range.
func offset(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > maxOffset {
		return -1, false
	}
	return int64(n), true
}

// errPart is the failure of an upstream that sends another part than it was asked for.
var errPart = errors.New("the upstream sends another part than it was asked for, so that the answer cannot be searched for credentials")

// sentPart is the part that an upstream says it sends: from the byte first to the byte last, of
// size, which is -1 if it is not known.
type sentPart struct{ first, last, size int64 }

func parseSent(res *http.Response) (s sentPart, ok bool) {
	text, found := strings.CutPrefix(res.Header.Get("Content-Range"), "bytes ")
	part, size, _ := strings.Cut(text, "/")
	first, last, _ := strings.Cut(part, "-")
	if !found || len(res.Header["Content-Range"]) != 1 {
		return s, false
	}
	if s.first, ok = offset(first); !ok {
		return s, false
	}
	if s.last, ok = offset(last); !ok || s.last < s.first {
		return s, false
	}
	if s.size = -1; size != "*" {
		s.size, ok = offset(size)
		ok = ok && s.size > s.last
	}
	return s, ok
}

// narrow makes an answer the one that the program asked for, and returns the body of
// it; nil if there is nothing to cut off.
func (p *part) narrow(res *http.Response) (*cutBody, error) {
	if res.StatusCode != http.StatusPartialContent || p == nil && res.Request.URL.Query().Has("partNumber") {
		// A whole answer, or none, or a part as it was uploaded to S3: the uploader
		// chose its size.
		return nil, nil //nolint:nilnil // nothing to cut off
	}
	s, ok := parseSent(res)
	if p == nil || !ok {
		return nil, errPart
	}
	from, to := p.from, s.last
	if from < 0 {
		from = max(0, s.size-p.to)
	}
	ended := s.last == s.size-1
	if !ended {
		to -= p.margin
	}
	if p.from >= 0 && p.to >= 0 {
		to = min(to, p.to)
	}
	switch {
	case s.first > max(0, from-p.margin), p.from < 0 && !ended:
		return nil, errPart
	case from > s.last && ended:
		beyond(res, s.size)
		return nil, nil //nolint:nilnil // nothing is left of it
	case from > to:
		return nil, errPart
	}
	size := "*"
	if s.size >= 0 {
		size = strconv.FormatInt(s.size, 10)
	}
	res.ContentLength = to - from + 1
	res.Header["Content-Range"] = []string{fmt.Sprintf("bytes %d-%d/%s", from, to, size)}
	res.Header["Content-Length"] = []string{strconv.FormatInt(res.ContentLength, 10)}
	// Those of the part that was sent.
	res.Header.Del("Content-Md5")
	res.Header.Del("Content-Digest")
	return &cutBody{skip: from - s.first, left: res.ContentLength}, nil
}

// beyond makes an answer that has only the margin one to a range after the end.
func beyond(res *http.Response, size int64) {
	_ = res.Body.Close() // what is left of it is not read
	res.StatusCode, res.Status, res.Body, res.ContentLength = http.StatusRequestedRangeNotSatisfiable, "", http.NoBody, 0
	res.Header["Content-Range"] = []string{"bytes */" + strconv.FormatInt(size, 10)}
	res.Header["Content-Length"] = []string{"0"}
}

// cutBody is a body without its margins.
type cutBody struct {
	io.ReadCloser
	skip, left int64
}

func (c *cutBody) Read(b []byte) (int, error) {
	if c.skip > 0 {
		n, err := io.CopyN(io.Discard, c.ReadCloser, c.skip)
		if c.skip -= n; err != nil {
			return 0, short(err)
		}
	}
	if c.left == 0 {
		// To the end, so that the connection can be used again.
		if _, err := io.Copy(io.Discard, io.LimitReader(c.ReadCloser, maxMargin)); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}
	n, err := c.ReadCloser.Read(b[:min(int64(len(b)), c.left)])
	if c.left -= int64(n); c.left > 0 {
		return n, short(err)
	}
	return n, nil
}

// short returns the error of a body that ends too early.
func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
