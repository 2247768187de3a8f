package redact_test

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/text/redact"
)

func TestSecretName(t *testing.T) {
	t.Parallel()
	for _, n := range []string{
		"TOKEN", "GITHUB_TOKEN", "NPMTOKEN", "gh-token", "accessToken", "REFRESH_TOKENS", "SECRET", "CLIENT_SECRET_2", "DB_PASSWORD",
		"PGPASSWORD", "MYSQL_PWD", "PASS", "DB_PASS", "API_KEY", "apikey", "x-api-key", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		"SSH_PRIVATE_KEY", "STRIPE_KEY", "CREDENTIALS", "GOOGLE_APPLICATION_CREDENTIALS", "BASIC_AUTH", "auth", "Authorization", "Cookie",
		"SESSION", "OP_SESSION_abc", "PHPSESSID", "JWT", "GH_PAT", "SENTRY_DSN", "passphrase", "_authToken",
	} {
		if !redact.SecretName(n) {
			t.Errorf("%s is not secret", n)
		}
	}
	for _, n := range []string{
		"", "=", "PATH", "HOME", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "XDG_SESSION_ID", "XDG_SESSION_TYPE", "DESKTOP_SESSION",
		"DBUS_SESSION_BUS_ADDRESS", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "MAX_OUTPUT_TOKENS", "AUTHOR", "GIT_AUTHOR_NAME", "PASSENGER_APP_ENV",
		"COMPASS", "KEYBOARD", "MONKEY", "KEY", "PUBLIC_KEY", "PATTERN", "PASSWORD_FILE", "TOKEN_PATH", "SECRETS_DIR", "LANG", "EDITOR",
	} {
		if redact.SecretName(n) {
			t.Errorf("%s is secret", n)
		}
	}
}

const (
	ghp = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
)

func TestArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want []string }{
		{[]string{"make", "test", "-j4"}, []string{"make", "test", "-j4"}},
		{[]string{"x", "--token=abc"}, []string{"x", "--token=[redacted]"}},
		{[]string{"x", "--password", "hunter2", "y"}, []string{"x", "--password", "[redacted]", "y"}},
		{[]string{"x", "--password", "--verbose"}, []string{"x", "--password", "--verbose"}},
		{[]string{"x", "-password", "p"}, []string{"x", "-password", "[redacted]"}},
		{[]string{"x", "--apiKey", "k"}, []string{"x", "--apiKey", "[redacted]"}},
		{[]string{"curl", "-H", "Authorization: Bearer abc", "u"}, []string{"curl", "-H", "Authorization: [redacted]", "u"}},
		{[]string{"curl", "-H", "X-Api-Key:abc"}, []string{"curl", "-H", "X-Api-Key:[redacted]"}},
		{[]string{"curl", "-u", "me:pw", "x"}, []string{"curl", "-u", "me:[redacted]", "x"}},
		{[]string{"id", "-u"}, []string{"id", "-u"}},
		{[]string{"env", "DB_PASSWORD=a b c", "cmd"}, []string{"env", "DB_PASSWORD=[redacted]", "cmd"}},
		{[]string{"sh", "-c", "TOKEN=abc make; echo ok"}, []string{"sh", "-c", "TOKEN=[redacted] make; echo ok"}},
		{
			[]string{"sh", "-lc", `export API_KEY="a b"; curl -H "Authorization: Bearer xyz" https://h/p`},
			[]string{"sh", "-lc", `export API_KEY="[redacted]"; curl -H "Authorization: [redacted]" https://h/p`},
		},
		{[]string{"git", "clone", "https://me:pw@host/x"}, []string{"git", "clone", "https://me:[redacted]@host/x"}},
		{[]string{"psql", "postgres://u:p@ss@h:5432/db"}, []string{"psql", "postgres://u:[redacted]@h:5432/db"}},
		{[]string{"curl", "https://h/?x=1&access_token=abc&y=2"}, []string{"curl", "https://h/?x=1&access_token=[redacted]&y=2"}},
		{[]string{"curl", "http://auth:8080/x"}, []string{"curl", "http://auth:8080/x"}},
		{[]string{"echo", ghp}, []string{"echo", "[redacted]"}},
		{[]string{"echo", "https://" + ghp + "@github.com/x"}, []string{"echo", "https://[redacted]@github.com/x"}},
		{[]string{"echo", jwt}, []string{"echo", "[redacted]"}},
		{[]string{"echo", "AKIAABCDEFGHIJKLMNOP", "sk-abcdefghijklmnopqrst", "xoxb-1234567890", "glpat-abcdefghijklmnopqrst"}, []string{"echo", "[redacted]", "[redacted]", "[redacted]", "[redacted]"}},
		{[]string{"echo", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\nrest"}, []string{"echo", "[redacted]\nrest"}},
		{[]string{"echo", "-----BEGIN RSA PRIVATE KEY-----\ncut off"}, []string{"echo", "[redacted]"}},
		{[]string{"curl", "-d", `{"user":"me","password":"pw","n":1}`}, []string{"curl", "-d", `{"user":"me","password":"[redacted]","n":1}`}},
		{[]string{"x", "conf=token=abc"}, []string{"x", "conf=token=[redacted]"}},
		{[]string{"mysql", "-uroot", "-phunter2"}, []string{"mysql", "-uroot", "-p[redacted]"}},
		{[]string{"ssh", "-p2222"}, []string{"ssh", "-p2222"}},
		{[]string{"x", "--token="}, []string{"x", "--token="}},
		{[]string{"x", "--token"}, []string{"x", "--token"}},
		{[]string{}, []string{}},
	} {
		got := redact.Args(c.in)
		if d := gocmp.Diff(c.want, got); d != "" {
			t.Errorf("Args(%q): %s", c.in, d)
		}
		if d := gocmp.Diff(got, redact.Args(got)); d != "" {
			t.Errorf("Args(%q) is not stable: %s", c.in, d)
		}
	}
}

func TestEnv(t *testing.T) {
	t.Parallel()
	names, secrets := redact.Env([]string{"PATH=/bin", "TOKEN=abc=d", "EMPTY_TOKEN=", "URL=redis://u:pw12@h", "PLAIN", "X=" + ghp, "USE_AUTH=true", "TOKENS=4096"})
	if d := gocmp.Diff([]string{"PATH", "TOKEN", "EMPTY_TOKEN", "URL", "PLAIN", "X", "USE_AUTH", "TOKENS"}, names); d != "" {
		t.Error(d)
	}
	if d := gocmp.Diff([]redact.Secret{{Name: "TOKEN", Value: "abc=d"}, {Name: "URL", Value: "pw12"}, {Name: "X", Value: ghp}}, secrets); d != "" {
		t.Error(d)
	}
}

// The writer must do what a replacer does that sees everything at once.
func TestWriterAgainstReplacer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]byte("ab\n"))
		text := func(least, most int) *rapid.Generator[string] {
			return rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(alphabet, least, most).Draw(t, "bytes")) })
		}
		var secrets []redact.Secret
		for i, v := range rapid.SliceOfN(text(1, 9), 0, 5).Draw(t, "values") {
			secrets = append(secrets, redact.Secret{Name: string(rune('A' + i)), Value: v})
		}
		chunks := rapid.SliceOfN(text(0, 12), 0, 12).Draw(t, "chunks")

		ordered := slices.Clone(secrets)
		slices.SortStableFunc(ordered, func(a, b redact.Secret) int { return cmp.Compare(len(b.Value), len(a.Value)) })
		var pairs []string
		for _, s := range ordered {
			if len(s.Value) >= 4 {
				pairs = append(pairs, s.Value, "[redacted:"+s.Name+"]")
			}
		}
		want := strings.NewReplacer(pairs...).Replace(strings.Join(chunks, ""))

		var got bytes.Buffer
		w := redact.NewWriter(&got, secrets)
		for _, c := range chunks {
			if n, err := w.Write([]byte(c)); n != len(c) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Fatalf("got %q, want %q", got.String(), want)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestWriterKeepsError(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	w := redact.NewWriter(failing{full}, nil)
	if _, err := w.Write([]byte("x")); !errors.Is(err, full) {
		t.Errorf("Write = %v", err)
	}
	if err := w.Close(); !errors.Is(err, full) {
		t.Errorf("Close = %v", err)
	}
}

func FuzzArgs(f *testing.F) {
	f.Add("--token", "x")
	f.Add("sh", "-c 'TOKEN=a; x'")
	f.Add(`{"password":`, "\xff")
	f.Add("a://b:c@d", "key: 'v")
	f.Add("-u", ":")
	f.Add("Authorization:", " Basic QWxhZGRpbjpvcGVu")
	f.Fuzz(func(t *testing.T, a, b string) {
		once := redact.Args([]string{"x", a, b})
		if len(once) != 3 {
			t.Fatalf("%d arguments", len(once))
		}
		redact.Env([]string{a, b})
		for _, s := range redact.Args([]string{a + " " + ghp, "--password", "hunter2hunter2"}) {
			if strings.Contains(s, ghp) && !strings.Contains(a, "_") || s == "hunter2hunter2" {
				t.Fatalf("a token survived %q: %q", a, s)
			}
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	chunk := bytes.Repeat([]byte("some ordinary line of build output, nothing to see\n"), 640)
	w := redact.NewWriter(failing{}, []redact.Secret{{Name: "A", Value: "sesame-open"}, {Name: "B", Value: "another secret"}})
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		_, _ = w.Write(chunk)
	}
}

// The shortest text of each kind is long enough to be looked at.
func TestShortest(t *testing.T) {
	t.Parallel()
	const mark = "[redacted]"
	for in, want := range map[string]string{
		"xapp-12345678": mark, "xoxb-12345678": mark, "basic abcdef": "basic " + mark, "BEARER abcdef": "BEARER " + mark,
		"a://b:c@": "a://b:" + mark + "@", "x;otp=1": "x;otp=" + mark, "x;otp: 1": "x;otp: " + mark,
	} {
		if got := redact.Args([]string{in})[0]; got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
