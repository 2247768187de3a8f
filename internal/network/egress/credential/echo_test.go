package credential_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

// TestEcho masks values in answers that arrive in any pieces.
func TestEcho(t *testing.T) {
	t.Parallel()
	set, _ := shapedSet(t, "", "REAL-REAL-value")
	if _, err := set.Renew("a", value(t, "REAL-second-value"), ""); err != nil {
		t.Fatal(err)
	}
	echo := set.Echo("a.example")
	text := "RREAL-REAL-REAL-value, REAL-second-value and REAL-" + strings.Repeat("x", 100) + "REAL-second-valu"
	want := "RREAL-***************, ***************** and REAL-" + strings.Repeat("x", 100) + "REAL-second-valu"
	for size := range 40 {
		from := io.NopCloser(&chunks{text: []byte(text), size: size + 1})
		got, err := io.ReadAll(masked(echo, from))
		if err != nil || string(got) != want {
			t.Errorf("pieces of %d: %q, %v", size+1, got, err)
		}
	}
	h := http.Header{"Location": {"https://x/?t=REAL-REAL-value"}, "Plain": {"REAL"}}
	if echo.Header(h); h.Get("Location") != "https://x/?t=***************" || h.Get("Plain") != "REAL" {
		t.Errorf("header %v", h)
	}
	if !set.Repeated([]byte("xREAL-REAL-value")) || set.Repeated([]byte("REAL-REAL-valu")) {
		t.Error("Repeated")
	}
}

// TestEchoRenewedMeanwhile: a request under way renews a login after a new policy was
// loaded. Its value is masked, and sent, under the new policy too.
func TestEchoRenewedMeanwhile(t *testing.T) {
	t.Parallel()
	before, _ := shapedSet(t, "", "REAL-first-value")
	credentials := []policy.Credential{{Name: "a", Endpoints: at(t, "a.example", "/**")}}
	after, err := before.Reload(credentials, nil)
	if err != nil {
		t.Fatal(err)
	}
	given, err := before.Reload(credentials, map[string]*credential.Value{"a": value(t, "REAL-given-value")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Renew("a", value(t, "REAL-other-value"), ""); err != nil {
		t.Fatal(err)
	}
	if given.IsCurrent("a", "REAL-other-value") {
		t.Error("a value that the operator gave was replaced")
	}
	if !given.Repeated([]byte("a REAL-other-value")) {
		t.Error("a value that was renewed is not known where the operator gave another")
	}
	if before, err = after.Reload(credentials, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := after.Renew("a", value(t, "REAL-third-value"), "lead-"); err != nil {
		t.Fatal(err)
	}
	if !before.IsCurrent("a", "REAL-third-value") || !before.Repeated([]byte("a REAL-third-value")) {
		t.Error("the renewed value is not the one of the new policy")
	}
}

// TestEchoOfAnHour: a cell can renew a login once a minute, and the values of the last hour
// may still be good.
func TestEchoOfAnHour(t *testing.T) {
	t.Parallel()
	set, _ := shapedSet(t, "", "REAL-value-0")
	for i := range 60 {
		if _, err := set.Renew("a", value(t, fmt.Sprintf("REAL-value-%d", i+1)), ""); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 61 {
		if text := fmt.Sprintf("(REAL-value-%d)", i); !set.Repeated([]byte(text)) {
			t.Errorf("%s was forgotten", text)
		}
	}
}

// TestEchoForms masks values in the forms in which they may be repeated, and values
// that overlap.
func TestEchoForms(t *testing.T) {
	t.Parallel()
	const v = `p/w <"x"> & y+z`
	coded, _ := json.Marshal(v)
	for _, form := range []string{
		v, url.QueryEscape(v), url.PathEscape(v), html.EscapeString(v), string(coded[1 : len(coded)-1]), `p/w <\"x\"> & y+z`, `p\/w <\"x\"> & y+z`,
		"p/w%20%3C%22x%22%3E%20%26%20y%2Bz", "p%2fw%20%3c%22x%22%3e%20%26%20y%2bz", "p%2fw+%3c%22x%22%3e+%26+y%2bz", "p/w &lt;&quot;x&quot;&gt; &amp; y+z",
	} {
		set, _ := shapedSet(t, "", v)
		want := "[" + strings.Repeat("*", len(form)) + "]"
		if got := set.Echo("a.example").Text("[" + form + "]"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// The bytes beside a value change only the outermost characters of base64.
	set, _ := shapedSet(t, "", v)
	for _, before := range []string{"", "u:", "us:", "user:"} {
		for _, after := range []string{"", ":", "::"} {
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				text := e.EncodeToString([]byte(before + v + after))
				if got := set.Echo("a.example").Text(text); strings.Count(got, "*") < len(v)*8/6-1 {
					t.Errorf("%s%s: %s", before, after, got)
				}
			}
		}
	}
	if set.Echo("b.example") != nil {
		t.Error("a host to which nothing goes")
	}
	// One value begins with another, and a third overlaps both.
	set, _ = shapedSet(t, "", "password")
	for _, v := range []string{"password-12345678", "12345678-xyz"} {
		if _, err := set.Renew("a", value(t, v), ""); err != nil {
			t.Fatal(err)
		}
	}
	text, want := "password-1234567 password-12345678-xyz password-12345678-xy", "********-1234567 ********************* *****************-xy"
	for size := range 40 {
		got, err := io.ReadAll(masked(set.Echo("a.example"), io.NopCloser(&chunks{text: []byte(text), size: size + 1})))
		if err != nil || string(got) != want {
			t.Errorf("pieces of %d: %q, %v", size+1, got, err)
		}
	}
}

// TestEchoRemembers masks values of earlier policies, also where their credentials
// are gone, and only so many.
func TestEchoRemembers(t *testing.T) {
	t.Parallel()
	set, _ := shapedSet(t, "", "REAL-value-0000")
	for i := range 70 {
		next, err := set.Reload([]policy.Credential{{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A"}}, map[string]*credential.Value{"a": value(t, fmt.Sprintf("REAL-value-%04d", i+1))})
		if err != nil {
			t.Fatal(err)
		}
		set.Drop()
		set = next
	}
	next, err := set.Reload(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	set.Drop()
	got := next.Echo("a.example").Text("REAL-value-0001 REAL-value-0069 REAL-value-0070")
	if got != "REAL-value-0001 *************** ***************" {
		t.Error(got)
	}
	if next.Drop(); next.Echo("a.example") != nil {
		t.Error("values after their end")
	}
}

// TestEchoHoldsNothingBack checks that a part that cannot be the start of a value is
// passed on at once.
func TestEchoHoldsNothingBack(t *testing.T) {
	t.Parallel()
	set, _ := shapedSet(t, "", "REAL-REAL-value")
	r, w := io.Pipe()
	body := masked(set.Echo("a.example"), r)
	go func() { _, _ = w.Write([]byte("data: hello\n\n")) }()
	buf := make([]byte, 100)
	if n, err := body.Read(buf); err != nil || string(buf[:n]) != "data: hello\n\n" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

func masked(e *credential.Echo, from io.ReadCloser) io.ReadCloser {
	m := credential.Mask{Echo: func() *credential.Echo { return e }}
	return m.Body(from)
}

// TestEchoCalls checks that a message of gRPC that ends with what could be the start
// of a value is passed on at once, and that values within messages are masked.
func TestEchoCalls(t *testing.T) {
	t.Parallel()
	set, _ := shapedSet(t, "", "REAL-REAL-value")
	echo := func() *credential.Echo { return set.Echo("a.example") }
	call := func(s string) string { return "\x00\x00\x00\x00" + string(rune(len(s))) + s }
	text := call("it is REAL-REAL-value") + call("") + call("REAL-") + call("REAL-value") + call("REAL-REAL-valueR")
	want := call("it is ***************") + call("") + call("REAL-") + call("REAL-value") + call("***************R")
	for size := range 40 {
		m := credential.Mask{Echo: echo}
		got, err := io.ReadAll(m.Calls(io.NopCloser(&chunks{text: []byte(text), size: size + 1})))
		if err != nil || string(got) != want {
			t.Errorf("pieces of %d: %q, %v", size+1, got, err)
		}
	}
	r, w := io.Pipe()
	m := credential.Mask{Echo: echo}
	body := m.Calls(r)
	go func() { _, _ = io.WriteString(w, call("ends with REAL-")) }()
	buf := make([]byte, 100)
	if n, err := body.Read(buf); err != nil || string(buf[:n]) != call("ends with REAL-") {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

type chunks struct {
	text []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.size)], c.text)
	c.text = c.text[n:]
	return n, nil
}

// TestMaskPieces checks that a stream in pieces is masked as the whole text is, with
// values that overlap.
func TestMaskPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		few := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 8, 20, -1)
		set, _ := shapedSet(t, "", few.Draw(r, "value"))
		for _, v := range rapid.SliceOfN(few, 0, 4).Draw(r, "others") {
			if _, err := set.Renew("a", value(t, v), ""); err != nil {
				t.Fatal(err)
			}
		}
		echo := set.Echo("a.example")
		m := credential.Mask{Echo: func() *credential.Echo { return echo }}
		var text, got string
		for _, piece := range rapid.SliceOf(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 30, -1)).Draw(r, "pieces") {
			text += piece
			got += string(m.Next([]byte(piece), false))
		}
		got += string(m.Next(nil, true))
		if want := echo.Text(text); got != want {
			r.Fatalf("%q, want %q", got, want)
		}
	})
}
