package credential_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

func TestParseSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"env:TOKEN", "env:TOKEN"},
		{"file:/a b", "file:/a b"},
		{"file:rel:ative", "file:rel:ative"},
		{`command:["pass","show","x"]`, "command:pass"},
		{`command: [ "pass" ] `, "command:pass"},
		{"", ""},
		{"env:", ""},
		{"env:A=B", ""},
		{"env:A B", ""},
		{"file:", ""},
		{"file:a\x00b", ""},
		{"ENV:X", ""},
		{"value:secret", ""},
		{"secret", ""},
		{"command:pass show", ""},
		{"command:[]", ""},
		{`command:[""]`, ""},
		{`command:[1]`, ""},
		{`command:[null]`, ""},
		{`command:["a"]["b"]`, ""},
		{`command:["a"`, ""},
		{`command:{"a":"b"}`, ""},
		{`command:["a\u0000"]`, ""},
	} {
		got, err := credential.ParseSource(c.in)
		if (err != nil) != (c.want == "") || err == nil && got.String() != c.want {
			t.Errorf("ParseSource(%q) = %s, %v, want %s", c.in, got, err, c.want)
		}
	}
}

func TestReadSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	r := credential.Reader{Env: []string{"GOOD=sesame", "EMPTY=", "LF=sesame\n", "CR=sesame\rx", "PATH=" + os.Getenv("PATH")}}
	quick := r
	quick.Timeout = 50 * time.Millisecond
	for _, c := range []struct {
		source, want string
		err          error
		r            credential.Reader
	}{
		{"env:GOOD", "sesame", nil, r},
		{"env:EMPTY", "", credential.ErrEmpty, r},
		{"env:LF", "", credential.ErrControl, r},
		{"env:CR", "", credential.ErrControl, r},
		{"env:NUL", "", credential.ErrControl, credential.Reader{Env: []string{"NUL=sesame\x00x"}}},
		{"env:MISSING", "", errAny, r},
		{"file:" + put("plain", "sesame"), "sesame", nil, r},
		{"file:" + put("newline", "sesame\n"), "sesame", nil, r},
		{"file:" + put("two", "sesame\n\n"), "", credential.ErrControl, r},
		{"file:" + put("crlf", "sesame\r\n"), "", credential.ErrControl, r},
		{"file:" + put("only", "\n"), "", credential.ErrEmpty, r},
		{"file:" + put("full", strings.Repeat("s", credential.MaxValue)+"\n"), strings.Repeat("s", credential.MaxValue), nil, r},
		{"file:" + put("long", strings.Repeat("sesame", credential.MaxValue)), "", credential.ErrTooLong, r},
		{"file:" + dir + "/missing", "", fs.ErrNotExist, r},
		{"file:" + dir, "", errAny, r},
		{"file:" + pipe, "", context.DeadlineExceeded, quick},
		{`command:["printf","sesame\\n"]`, "sesame", nil, r},
		{`command:["printf","%s","$HOME"]`, "$HOME", nil, r},
		{`command:["sh","-c","echo sesame; exit 3"]`, "", errAny, r},
		{`command:["sh","-c","echo sesame >&2; exit 3"]`, "", errAny, r},
		{`command:["true"]`, "", credential.ErrEmpty, r},
		{`command:["yes","sesame"]`, "", credential.ErrTooLong, r},
		{`command:["/does/not/exist"]`, "", fs.ErrNotExist, r},
		{`command:["sleep","1000"]`, "", context.DeadlineExceeded, quick},
		{`command:["sh","-c","sleep 3 & echo sesame"]`, "", context.DeadlineExceeded, quick},
	} {
		s, err := credential.ParseSource(c.source)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.r.Read(t.Context(), s)
		if !errors.Is(err, c.err) && (err == nil || !errors.Is(c.err, errAny)) {
			t.Errorf("%s: %v, want %v", s, err, c.err)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: the error holds the value: %v", s, err)
		}
		if err == nil && reveal(t, v) != c.want {
			t.Errorf("%s: another value", s)
		}
	}
}

var errAny = errors.New("any error")

// reveal gets a value out the only way there is: into a request.
func reveal(t *testing.T, v *credential.Value) string {
	t.Helper()
	set, err := credential.NewSet([]policy.Credential{{Name: "v", Endpoints: at(t, "v.example", "/**"), Header: "X-V"}}, map[string]*credential.Value{"v": v})
	if err != nil {
		t.Fatal(err)
	}
	req := request(t, "GET", "https://v.example/", "")
	if _, err := set.Apply(t.Context(), req, target("v.example", "/"), nil, signTime); err != nil {
		t.Fatal(err)
	}
	return req.Header.Get("X-V")
}

// Nothing that prints, logs or encodes shows a value or any bytes of it.
func TestValueIsNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "sesame-opens"
	v := value(t, secret)
	set, err := credential.NewSet([]policy.Credential{{Name: "v", Endpoints: at(t, "v.example", "/**"), Header: "X-V"}}, map[string]*credential.Value{"v": v})
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	type holder struct {
		Shown  *credential.Value
		hidden *credential.Value
		copied credential.Value
		set    *credential.Set
	}
	for _, x := range []any{v, *v, holder{v, v, *v, set}, &holder{v, v, *v, set}, set, []*credential.Value{v}, map[string]*credential.Value{"k": v}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p"} {
			fmt.Fprintf(&shown, verb+"\n", x)
		}
		if b, err := json.Marshal(x); err == nil {
			shown.Write(b)
		}
		if b, err := xml.Marshal(x); err == nil {
			shown.Write(b)
		}
		slog.New(slog.NewTextHandler(&shown, nil)).Info("m", "v", x)
		slog.New(slog.NewJSONHandler(&shown, nil)).Info("m", "v", x)
	}
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), strings.Trim(fmt.Sprint([]byte(secret)), "[]"), "0x73, 0x65"} {
		if strings.Contains(shown.String(), form) {
			t.Errorf("%q is shown", form)
		}
	}
	b := []byte(secret)
	dropped, err := credential.NewValue(b)
	if err != nil {
		t.Fatal(err)
	}
	dropped.Drop()
	bad := []byte("sesame\n")
	if _, err := credential.NewValue(bad); err == nil {
		t.Error("a line end was taken")
	}
	if strings.Trim(string(b), "\x00") != "" || strings.Trim(string(bad), "\x00") != "" {
		t.Error("a value was not overwritten")
	}
}

func TestCredentialsFile(t *testing.T) {
	t.Parallel()
	good := "# comment\n\na=env:A for *.x.example:443,y.example,[2001:db8::1]:8443\nb.c=file:/x y=z\nd=command:[\"p\",\" for q\"] for z.example"
	got, err := credential.ParseFile([]byte(good))
	if err != nil || fmt.Sprint(got) != "[{{a env:A} [{*.x.example 443} {y.example 0} {2001:db8::1 8443}]} {{b.c file:/x y=z} []} {{d command:p} [{z.example 0}]}]" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{
		"a", "a=", "=env:A", "a=sesame", "a=env:A\na=env:B", "a=file:rel", " a=env:A", "a =env:A", "a=file:/x ", "a=env:A\r\n", "export a=env:A", "-a=env:A",
		strings.Repeat("a", 64) + "=env:A", strings.Repeat("#\n", 200<<10), "a=command:sesame",
		"a=env:A for ", "a=env:A for sesame*", "a=env:A for x.example,", "a=env:A for x.example:0", "a=env:A for x.example:70000", "a=env:A for x.example:",
		"a=env:A  for x.example", "a=env:A for  x.example", "a=env:A for x.example, y.example", "a=env:A for 2001:db8::1", "a=env:A for *", "a=env:A for https://x.example",
		" for x.example", "a=file:rel for x.example",
	} {
		_, err := credential.ParseFile([]byte(bad))
		if !errors.Is(err, credential.ErrFile) {
			t.Errorf("%.20q: %v", bad, err)
		} else if strings.Contains(err.Error(), "sesame") {
			t.Errorf("%.20q: the error holds the line: %v", bad, err)
		}
	}

	dir := t.TempDir()
	path := filepath.Join(dir, "credentials")
	if _, err := credential.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := credential.ReadFile(path); err != nil || len(got) != 3 {
		t.Errorf("%v, %v", got, err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o601} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := credential.ReadFile(path); !errors.Is(err, credential.ErrFile) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, err := credential.ReadFile(dir); !errors.Is(err, credential.ErrFile) {
		t.Errorf("a directory: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(path, 0o600), os.Chown(path, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if _, err := credential.ReadFile(path); !errors.Is(err, credential.ErrFile) {
			t.Errorf("another's file: %v", err)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte("a=env:A\n#x\nb=command:[\"p\"]\n"))
	f.Add([]byte("a=file:/x\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := credential.ParseFile(b)
		if err != nil {
			if got != nil || !errors.Is(err, credential.ErrFile) {
				t.Fatal(got, err)
			}
			return
		}
		seen := map[string]bool{}
		for _, a := range got {
			if seen[a.Name] || a.Source.String() == "no source" {
				t.Fatalf("%v", a)
			}
			seen[a.Name] = true
		}
	})
}

// TestUncovered: a line covers what it names, and nothing else.
func TestUncovered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ places, host, uncovered string }{
		{"a.example", "{host: a.example, port: 443}", ""},
		{"a.example:443", "{host: a.example, port: 443}", ""},
		{"A.example:443", "{host: a.EXAMPLE, port: 443}", ""},
		{"a.example:443", "{host: a.example, ports: [443, 8443]}", "a.example:8443"},
		{"a.example:443,a.example:8443", "{host: a.example, ports: [443, 8443]}", ""},
		{"a.example", "{host: b.example, port: 443}", "b.example:443"},
		{"*.a.example", "{host: x.a.example, port: 443}", ""},
		{"*.a.example", "{host: \"*.a.example\", port: 443}", ""},
		{"**.a.example", "{host: \"*.a.example\", port: 443}", "*.a.example:443"},
		{"x.a.example", "{host: \"*.a.example\", port: 443}", "*.a.example:443"},
		{"a.example", "{host: x.a.example, port: 443}", "x.a.example:443"},
	} {
		p, err := policy.Parse("p", []byte("version: 1\nnetwork_policies: {n: {endpoints: ["+strings.Replace(c.host, "}", ", protocol: rest, access: full}", 1)+"], binaries: [{path: /**}]}}\n"+
			"credentials: {t: {endpoints: ["+c.host+"], expose_as: T, replace_in_headers: [Authorization]}}\n"), policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lines, err := credential.ParseFile([]byte("t=env:T for " + c.places))
		if err != nil {
			t.Fatal(err)
		}
		if got := lines[0].Uncovered(p.Credentials[0]); got != c.uncovered {
			t.Errorf("%s covers %s but for %q", c.places, c.host, got)
		}
	}
}
