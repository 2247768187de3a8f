package credential_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

func TestReplaceInBody(t *testing.T) {
	t.Parallel()
	set, a, _ := two(t, true)
	const quoted = `S3cr3t-A/with \"quotes\" & + =`
	for _, c := range []struct{ name, kind, body, want string }{
		{"plain", "text/plain", "x" + a + "y", "x" + secretA + "y"},
		{"JSON", "application/json; charset=utf-8", `{"t":"` + a + `"}`, `{"t":"` + quoted + `"}`},
		{"+json", "application/vnd.api+json", `{"t":"` + a + `"}`, `{"t":"` + quoted + `"}`},
		{"form", "application/x-www-form-urlencoded", "t=" + a + "&u=1", "t=" + url.QueryEscape(secretA) + "&u=1"},
		{"none", "text/plain", "nothing here", "nothing here"},
		{"almost", "text/plain", a[:30], a[:30]},
		{"twice", "text/plain", a + a + "fcph_" + a, secretA + secretA + "fcph_" + secretA},
	} {
		for _, streamed := range []bool{false, true} {
			req := request(t, "POST", "https://a.example/", c.body, "Content-Type", c.kind)
			if streamed {
				req = stream(req)
				req.Body = io.NopCloser(iotest.OneByteReader(strings.NewReader(c.body)))
			} else {
				req.Header.Set("Content-Length", "7")
			}
			done, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			got, err := readBody(t, req)
			if err != nil || got != c.want {
				t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
			}
			switch {
			case streamed && (req.ContentLength != -1 || done.Body == nil):
				t.Errorf("%s: length %d of a stream", c.name, req.ContentLength)
			case !streamed && (req.ContentLength != int64(len(c.want)) || done.Body != nil):
				t.Errorf("%s: length %d, want %d", c.name, req.ContentLength, len(c.want))
			}
			if streamed && c.want != c.body && strings.Join(done.Body(), " ") != "a" {
				t.Errorf("%s: the body used %q", c.name, done.Body())
			}
		}
	}
}

func TestBodyLeftAlone(t *testing.T) {
	t.Parallel()
	without, _, _ := two(t, false)
	with, a2, _ := two(t, true)
	big := strings.Repeat("0123456789abcdef", 8<<10)
	for _, c := range []struct {
		name string
		set  *credential.Set
		req  *http.Request
		want string
	}{
		{"compressed", with, request(t, "POST", "https://a.example/", "x"+a2, "Content-Encoding", "gzip"), "x" + a2},
		{"large, with its length", without, request(t, "POST", "https://a.example/", big), big},
	} {
		length := c.req.ContentLength
		if _, err := c.set.Apply(t.Context(), c.req, target("a.example", "/"), nil, signTime); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := readBody(t, c.req); err != nil || got != c.want || c.req.ContentLength != length {
			t.Errorf("%s: %d bytes, length %d, %v", c.name, len(got), c.req.ContentLength, err)
		}
	}
}

// A client that waits for an answer to the first part of its body gets that part
// through.
func TestBodyIsNotHeldBack(t *testing.T) {
	t.Parallel()
	for _, inBody := range []bool{false, true} {
		set, a, _ := two(t, inBody)
		if !inBody {
			a = a[:20]
		}
		in, out := io.Pipe()
		req := stream(request(t, "POST", "https://a.example/", "x", "Content-Type", "text/plain"))
		req.Body = in
		if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = out.Write([]byte("first part")) }()
		buf := make([]byte, 100)
		n, err := req.Body.Read(buf)
		if err != nil || string(buf[:n]) != "first part" {
			t.Errorf("%q, %v", buf[:n], err)
		}
		go func() {
			_, _ = out.Write([]byte("f" + a))
			_ = out.CloseWithError(errors.New("broken off"))
		}()
		rest, err := io.ReadAll(req.Body)
		if err == nil || err.Error() != "broken off" {
			t.Errorf("the error of the body became %v", err)
		}
		if want := map[bool]string{false: "f" + a, true: "f" + secretA}[inBody]; string(rest) != want {
			t.Errorf("%q, want %q", rest, want)
		}
		if err := req.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	set, a, b := two(t, true)
	got, used, err := set.Message(target("a.example", "/"), []byte(`{"t":"`+a+`"}`))
	if err != nil || string(got) != `{"t":"S3cr3t-A/with \"quotes\" & + ="}` || len(used) != 1 {
		t.Errorf("%s, %v, %v", got, used, err)
	}
	var misuse *credential.MisuseError
	if _, _, err := set.Message(target("a.example", "/"), []byte(b)); !errors.As(err, &misuse) || misuse.Part != "message" {
		t.Errorf("%v", err)
	}
}

// However a body is cut into reads, the placeholders in it are replaced and
// every other byte is what it was.
func TestStreamProperty(t *testing.T) {
	t.Parallel()
	set, a, _ := two(t, true)
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{a, "fcph_", a[:17], "f", "fc", "\x00", "%66", "text ", "zz"}), 0, 30).Draw(t, "parts")
		in := strings.Join(parts, "")
		want := strings.ReplaceAll(in, a, secretA)
		cuts := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 10).Draw(t, "cuts")
		req := &http.Request{Method: "POST", URL: &url.URL{}, Header: http.Header{"Content-Type": {"text/plain"}}, ContentLength: -1}
		req.Body = io.NopCloser(&cutReader{b: []byte(in), cuts: cuts})
		if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(req.Body)
		// Parts may join into what looks like a placeholder but is none of ours.
		var misuse *credential.MisuseError
		if errors.As(err, &misuse) && misuse.Credential == "" {
			return
		}
		if err != nil || string(got) != want {
			t.Fatalf("%q, %v\nwant %q", got, err, want)
		}
	})
}

// A misuse is found in a stream in every form, wherever the stream is cut.
func TestStreamMisuse(t *testing.T) {
	t.Parallel()
	set, _, b := two(t, true)
	forms := map[string]string{"plain": b, "percent": percent(b), "percent twice": url.QueryEscape(percent(b))}
	for _, before := range []string{"", "x", "xy"} {
		forms["base64 after "+before] = base64.StdEncoding.EncodeToString([]byte(before + b))
		forms["percent and base64 after "+before] = percent(base64.RawURLEncoding.EncodeToString([]byte(before + b)))
	}
	for name, form := range forms {
		for _, cut := range []int{1, 7, 30, 64, 500} {
			for _, pad := range []int{0, 300, 501} {
				req := stream(request(t, "POST", "https://a.example/", "x"))
				req.Body = io.NopCloser(&cutReader{b: []byte(strings.Repeat(".", pad) + form + "..."), cuts: []int{cut}})
				if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime); err != nil {
					t.Fatal(err)
				}
				var misuse *credential.MisuseError
				if _, err := readBody(t, req); !errors.As(err, &misuse) || misuse.Credential != "b" {
					t.Errorf("%s, in pieces of %d after %d bytes: %v", name, cut, pad, err)
				}
			}
		}
	}
}

// cutReader gives its bytes in pieces of the sizes in cuts, over and over.
type cutReader struct {
	b    []byte
	cuts []int
	i    int
}

func (r *cutReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.cuts[r.i%len(r.cuts)])], r.b)
	r.b = r.b[n:]
	r.i++
	return n, nil
}

// The value of a credential is in no error, and in a request only where it may
// be; a misuse anywhere in a body is found however it is encoded and cut.
func FuzzApply(f *testing.F) {
	f.Add("Bearer ", "k=", "body ", uint8(3), false)
	f.Add("", "%", "\x00fcph_", uint8(1), true)
	f.Fuzz(func(t *testing.T, header, query, body string, cut uint8, own bool) {
		set, a, b := two(t, true)
		ph := b
		if own {
			ph = a
		}
		req := &http.Request{
			Method: "POST", URL: &url.URL{Scheme: "https", Host: "a.example", Path: "/", RawQuery: query + ph},
			Header: http.Header{"X-Named": {header + ph}, "Content-Type": {"text/plain"}}, ContentLength: -1,
			Body: io.NopCloser(&cutReader{b: []byte(body + ph + body), cuts: []int{int(cut) + 1}}),
		}
		_, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime)
		var sent []byte
		if err == nil {
			sent, err = io.ReadAll(req.Body)
		}
		if err != nil && (strings.Contains(err.Error(), secretA) || strings.Contains(err.Error(), secretB)) {
			t.Fatal("an error holds a value")
		}
		if strings.Contains(req.Header.Get("X-Named"), secretB) || strings.Contains(req.URL.RawQuery, secretB) || bytes.Contains(sent, []byte(secretB)) {
			t.Fatal("a value went where it may not")
		}
		var misuse *credential.MisuseError
		if !own && !errors.As(err, &misuse) {
			t.Fatalf("a misuse was not found: %v", err)
		}
		if own && err == nil && !strings.HasSuffix(req.Header.Get("X-Named"), secretA) {
			t.Fatalf("header %q", req.Header.Get("X-Named"))
		}
	})
}

func BenchmarkInspectBody(b *testing.B) {
	set, _, _ := two(b, false)
	text := bytes.Repeat([]byte("0123456789abcdef"), 2<<10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := set.InspectBytes(target("a.example", "/"), "body", text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	set, a, _ := two(b, false)
	for b.Loop() {
		req := request(b, "GET", "https://a.example/x?y=z", "", "Authorization", "Bearer "+a, "Accept", "application/json", "User-Agent", "curl/8")
		if _, err := set.Apply(b.Context(), req, target("a.example", "/x"), nil, signTime); err != nil {
			b.Fatal(err)
		}
	}
}
