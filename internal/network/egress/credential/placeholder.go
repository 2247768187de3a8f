package credential

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
)

// A placeholder is the prefix and 128 random bits in 26 digits. Its characters
// need no escaping in headers, URLs, JSON, forms and shells.
const (
	prefix     = "fcph_"
	digitCount = 26
	length     = len(prefix) + digitCount
	digits     = "abcdefghijklmnopqrstuvwxyz234567"
)

func newPlaceholder() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + base32.NewEncoding(digits).WithPadding(base32.NoPadding).EncodeToString(b[:])
}

func isDigit(c byte) bool { return c >= 'a' && c <= 'z' || c >= '2' && c <= '7' }

// looksLikePlaceholder reports whether b starts with what looks like a placeholder.
func looksLikePlaceholder(b []byte) bool {
	if len(b) < length || string(b[:len(prefix)]) != prefix {
		return false
	}
	for _, c := range b[len(prefix):length] {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// next returns the index of the first placeholder in b, or -1.
func next(b []byte) int {
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], []byte(prefix))
		if i < 0 {
			return -1
		}
		at += i
		if looksLikePlaceholder(b[at:]) {
			return at
		}
	}
}

// partial returns the index from which b could be the start of a placeholder
// that continues after its end; len(b) if there is none.
func partial(b []byte) int {
	for at := max(0, len(b)-length+1); at < len(b); at++ {
		ok := true
		for i, c := range b[at:] {
			if i < len(prefix) && c != prefix[i] || i >= len(prefix) && !isDigit(c) {
				ok = false
				break
			}
		}
		if ok {
			return at
		}
	}
	return len(b)
}

// anchor is a part of base64 that the prefix determines. lead is the characters
// of its group before it; they also hold bits of the text before a placeholder,
// which are zero here.
type anchor struct{ lead, text string }

// anchors is indexed by the number of bytes before the prefix in its group of
// three. Placeholders never encode to + or /, so both alphabets are covered.
func anchors() [3]anchor {
	return [3]anchor{{"", "ZmNwaF"}, {"AG", "ZjcGhf"}, {"AAB", "mY3BoX"}}
}

// maxEncoded is the length of the longest form of a placeholder that is
// searched for. Only base64 with each character percent-encoded twice is
// longer.
const maxEncoded = 192

// maxRounds is how often percent escapes are decoded.
const maxRounds = 2

// each calls visit for every placeholder in b, plain, in base64 or
// percent-encoded, until it returns false.
func each(b []byte, visit func(placeholder []byte) bool) bool {
	for round := 0; ; round++ {
		if !eachPlain(b, visit) || !eachBase64(b, visit) {
			return false
		}
		if round == maxRounds || bytes.IndexByte(b, '%') < 0 {
			return true
		}
		b = unescape(b)
	}
}

// eachFolded is each, without regard to case.
func eachFolded(s string, visit func(placeholder []byte) bool) bool {
	if len(s) < length {
		return true // every form of one is at least as long
	}
	b := []byte(s)
	if !each(b, visit) {
		return false
	}
	low := bytes.ToLower(b)
	return bytes.Equal(low, b) || each(low, visit)
}

func eachPlain(b []byte, visit func([]byte) bool) bool {
	for {
		at := next(b)
		if at < 0 {
			return true
		}
		if !visit(b[at : at+length]) {
			return false
		}
		b = b[at+length:]
	}
}

func eachBase64(b []byte, visit func([]byte) bool) bool {
	for ahead, anchor := range anchors() {
		var group [44]byte
		need := (8*(length+ahead) + 5) / 6
		for rest := b; ; {
			i := bytes.Index(rest, []byte(anchor.text))
			if i < 0 {
				break
			}
			rest = rest[i:]
			lead := copy(group[:], anchor.lead)
			if copy(group[lead:need], rest) == need-lead {
				var out [33]byte
				n, err := base64.RawStdEncoding.Decode(out[:], group[:need])
				if err == nil && n == length+ahead && looksLikePlaceholder(out[ahead:n]) && !visit(out[ahead:n]) {
					return false
				}
			}
			rest = rest[1:]
		}
	}
	return true
}

// unescape decodes percent escapes and leaves invalid ones unchanged.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '%' && i+2 < len(b) {
			hi, ok1 := unhex(b[i+1])
			lo, ok2 := unhex(b[i+2])
			if ok1 && ok2 {
				out = append(out, hi<<4|lo)
				i += 2
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
