//go:build agents

package session_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/session/standin"
)

// login is a login of the host, with which an agent works in place of a key.
type login struct {
	program
	resolver, file string
	// text is the file's; end is when the login has ended, in milliseconds since 1970.
	text func(end int64) string
	// endpoint is the path at which the login is renewed.
	endpoint string
	// then, if set, are arguments of a second session, whose work needs the login that has
	// ended: the first one needed another entry of the file.
	then []string
	// secrets are in no file of the cell, renewed ones in the host's file at the end.
	secrets, renewed []string
}

func logins() []login {
	const key = "sk-ant-api03-the-real-key-of-the-operator"
	return []login{{
		program: program{
			name: "gemini", credential: "gemini_oauth", key: standin.GoogleRenewed, header: "Authorization",
			hosts: []string{"cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "www.googleapis.com"},
			args:  []string{"-p", "do the task"}, again: []string{"-p", "go on"}, tools: true,
		},
		resolver: "gemini-home-oauth-file", file: ".gemini/oauth_creds.json", endpoint: "/token",
		text: func(end int64) string {
			return fmt.Sprintf(`{"access_token": %q, "scope": "openid", "token_type": "Bearer", "id_token": %q, "expiry_date": %d, "refresh_token": %q}`,
				standin.GoogleAccess, standin.GoogleIdentity("the-first-signature"), end, standin.GoogleRefresh)
		},
		secrets: []string{standin.GoogleRefresh, standin.GoogleAccess, "the-first-signature", "renewed-signature"},
		renewed: []string{standin.GoogleRenewed, standin.GoogleRefresh, "renewed-signature"},
	}, {
		program: program{
			name: "opencode", credential: "opencode_auth", key: key, header: "X-Api-Key",
			hosts: []string{"api.anthropic.com", "chatgpt.com", "auth.openai.com"},
			args:  []string{"run", "-m", "anthropic/claude-sonnet-4-5", "do the task"},
		},
		resolver: "opencode-home-auth-file", file: ".local/share/opencode/auth.json", endpoint: "/oauth/token",
		text: func(end int64) string {
			return fmt.Sprintf(`{"anthropic": {"type": "api", "key": %q}, "groq": {"type": "api", "key": "gsk_the-real-key-of-another-service"},
				"openai": {"type": "oauth", "refresh": %q, "access": %q, "expires": %d, "accountId": "an-account"}}`,
				key, standin.ChatGPTRefresh, standin.ChatGPTAccess("the-first-signature"), end)
		},
		then:    []string{"run", "-m", "openai/gpt-5.4", "say it"},
		secrets: []string{standin.ChatGPTRefresh, "the-first-signature", standin.ChatGPTRenewedRefresh, standin.ChatGPTSignature, "gsk_the-real-key-of-another-service"},
		renewed: []string{standin.ChatGPTRenewedRefresh, standin.ChatGPTSignature, "gsk_the-real-key-of-another-service", key},
	}}
}

// TestRealAgentsLogin has agents work with a login of the host that has ended. It is
// renewed on the host, once for all runs of the session, and no token is in the cell.
func TestRealAgentsLogin(t *testing.T) {
	t.Parallel()
	for _, in := range logins() {
		t.Run(in.name, func(t *testing.T) {
			l := newLane(t, in.program, nil)
			l.given = l.pins()
			l.login(in)
			l.session()
			if in.tools {
				l.rewind(l.checkTurns())
			}
			l.checks(l.publish)
			l.second(in)
			l.checkLogin(in)
		})
	}
}

// login writes the login to the operator's home, and lets sessions use and renew it.
func (l *lane) login(in login) {
	l.t.Helper()
	file := filepath.Join(l.dir, "user", in.file)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(in.text(time.Now().Add(-time.Hour).UnixMilli())), 0o600); err != nil {
		l.t.Fatal(err)
	}
	l.forkcell("auth", "init")
	l.forkcell("auth", "set", "--agent", in.name, "--credential", in.credential, "--resolver", in.resolver, "--ack-host-resolver", "--ack-write-back")
}

// second runs the second session, if there is one.
func (l *lane) second(in login) {
	l.t.Helper()
	if in.then == nil {
		return
	}
	args := append([]string{"agent", in.name, "--name", "second", "--timeout", "5m"}, l.given...)
	if out := l.forkcell(append(append(args, "--"), in.then...)...); !strings.Contains(out, standin.Done) {
		l.t.Errorf("the answer of the second session is not in the output: %s", out)
	}
	for _, secret := range in.secrets {
		l.absent("second", secret)
	}
}

// checkLogin checks who has which token after a session.
func (l *lane) checkLogin(in login) {
	l.t.Helper()
	for _, secret := range in.secrets {
		l.absent("s", secret)
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "user", in.file))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, token := range in.renewed {
		if !bytes.Contains(text, []byte(token)) {
			l.t.Errorf("the host's login lacks %s: %s", token, text)
		}
	}
	asked := 0
	for _, q := range l.service.Requests() {
		if q.Path == in.endpoint {
			asked++
		}
		if strings.Contains(fmt.Sprint(q.Header, string(q.Body)), "fcph_") && q.Path == in.endpoint {
			l.t.Errorf("the token endpoint got a placeholder: %s", q.Body)
		}
	}
	if asked != 1 {
		l.t.Errorf("the login was renewed %d times", asked)
	}
}
