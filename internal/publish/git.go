package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

const (
	// maxOutput bounds what git may print, maxMessage what is kept of its errors.
	maxOutput  = 64 << 20
	maxMessage = 16 << 10
	// waitDelay is how long programs that git started may keep its output open after
	// git was ended.
	waitDelay = 5 * time.Second
)

// setting is one key of git's configuration.
type setting struct{ key, value string }

// runner runs the installed git with an environment made for it.
type runner struct {
	program string
	env     []string
}

// call is one execution of git.
type call struct {
	args []string
	// repo is the directory of the repository, "" for none.
	repo string
	// dir is the working directory, "" is /.
	dir   string
	stdin io.Reader
	// config is added to what every call gets.
	config []setting
	env    []string
	// protocols lists the transports that git may use, separated by colons. "" is
	// none.
	protocols string
}

// inheritedVariables lists the variables of the caller that git and the programs of keys and
// credentials get. None of them can make git run a program of a repository.
func inheritedVariables() []string {
	return []string{
		"HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "GNUPGHOME", "GPG_TTY", "GPG_AGENT_INFO", "TERM", "DISPLAY",
		"WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
	}
}

// newRunner finds git in the caller's search path. Directories that cells can have
// written, and the repository, are no part of it: the work may hold a program called git.
func newRunner(env []string, repo string, closed hosttool.ExcludedDirs) (*runner, error) {
	values := map[string]string{}
	for _, kv := range env {
		key, value, _ := strings.Cut(kv, "=")
		values[key] = value
	}
	programs := hosttool.InEnv(env, func() (dirs []string, err error) {
		if closed != nil {
			dirs, err = closed()
		}
		return append(dirs, repo), err
	})
	r := &runner{env: []string{"PATH=" + programs.Path()}}
	var err error
	if r.program, err = programs.Look("git"); err != nil {
		return nil, api.Refusef(api.CodePublish, "install git", "there is no git in the search path")
	}
	for _, name := range inheritedVariables() {
		if value, ok := values[name]; ok {
			r.env = append(r.env, name+"="+value)
		}
	}
	return r, nil
}

// isolation is the configuration of every call. Together with the environment it
// leaves nothing that a repository, its files or the system could configure.
func isolation() []setting {
	return []setting{
		{"core.hooksPath", "/dev/null"},
		{"core.fsmonitor", "false"},
		{"core.attributesFile", "/dev/null"},
		{"core.excludesFile", "/dev/null"},
		{"core.protectHFS", "true"},
		{"core.protectNTFS", "true"},
		{"core.commitGraph", "false"},
		{"core.multiPackIndex", "false"},
		{"core.askPass", ""},
		{"credential.helper", ""},
		{"fetch.fsckObjects", "true"},
		{"transfer.fsckObjects", "true"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"http.followRedirects", "false"},
		{"protocol.allow", "never"},
		{"push.recurseSubmodules", "no"},
		{"submodule.recurse", "false"},
	}
}

// command makes the command of a call.
func (r *runner) command(ctx context.Context, c call) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.program, c.args...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = c.dir, c.stdin, waitDelay
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	protocols := c.protocols
	if protocols == "" {
		protocols = "none"
	}
	cmd.Env = slices.Concat(r.env, []string{
		"LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ADVICE=0", "GIT_ALLOW_PROTOCOL=" + protocols,
		"GIT_CEILING_DIRECTORIES=/",
	})
	if c.repo != "" {
		cmd.Env = append(cmd.Env, "GIT_DIR="+c.repo)
	}
	config := append(isolation(), c.config...)
	cmd.Env = append(cmd.Env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	for i, s := range config {
		n := strconv.Itoa(i)
		cmd.Env = append(cmd.Env, "GIT_CONFIG_KEY_"+n+"="+s.key, "GIT_CONFIG_VALUE_"+n+"="+s.value)
	}
	cmd.Env = append(cmd.Env, c.env...)
	return cmd
}

// run runs git and returns its output.
func (r *runner) run(ctx context.Context, c call) ([]byte, error) {
	out := &boundedBuffer{limit: maxOutput}
	err := r.stream(ctx, c, out)
	return out.Bytes(), err
}

// stream runs git with its output going to w.
func (r *runner) stream(ctx context.Context, c call, w io.Writer) error {
	cmd := r.command(ctx, c)
	messages := &boundedBuffer{limit: maxMessage, drop: true}
	cmd.Stdout, cmd.Stderr = w, messages
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &gitError{verb: c.args[0], text: messages.String(), err: err}
}

// gitError is a failure of git, with what it printed.
type gitError struct {
	verb, text string
	err        error
}

func (e *gitError) Error() string {
	text := strings.TrimSpace(e.text)
	if text == "" {
		text = e.err.Error()
	}
	return fmt.Sprintf("git %s: %s", e.verb, quote.Line(redact.Text(strings.ReplaceAll(text, "\n", "; "))))
}

func (e *gitError) Unwrap() error { return e.err }

// exitCode returns the exit code of git, or -1.
func exitCode(err error) int {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	return -1
}

// boundedBuffer is a buffer with a limit. Writes past the limit fail or are dropped.
type boundedBuffer struct {
	bytes.Buffer
	limit int
	drop  bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	room := b.limit - b.Len()
	if len(p) > room && !b.drop {
		return 0, errors.New("git printed too much")
	}
	b.Buffer.Write(p[:min(len(p), max(room, 0))])
	return len(p), nil
}

// line returns the output of a call as one line.
func (r *runner) line(ctx context.Context, c call) (string, error) {
	out, err := r.run(ctx, c)
	return strings.TrimSpace(string(out)), err
}
