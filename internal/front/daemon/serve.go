// Package daemon wires the parts of the whole program: the daemon, with the libraries
// that only it needs. Ordinary commands must not link them, because their start
// would take longer.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"runtime/debug"
	"strconv"
	"sync"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/rest"
	"github.com/forkcell/forkcell/internal/session"
)

// SocketName is the name of the daemon's socket in a home.
const SocketName = "api.sock"

// Serve runs the daemon on a home until ctx ends. ready is called with the addresses
// when they can be connected to.
func Serve(ctx context.Context, home string, o api.ServeOptions, stderr io.Writer, ready func([]string) error) (err error) {
	if home == "" {
		if home, err = local.DefaultHome(); err != nil {
			return err
		}
	}
	collectLess()
	log := logger(o.LogFormat, stderr)
	spans, endTraces, err := startTraces(ctx, log)
	if err != nil {
		return err
	}
	defer endTraces() // when another daemon can already take over
	nobody := caller.Caller{Actor: func() string { return "daemon" }}
	engine, release, err := local.Open(home, local.Serve, nobody)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	unlock, err := engine.LockDaemon(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	defer engine.KeepRecords()()
	if err := engine.ExpireUploads(0); err != nil {
		return err
	}
	cert, err := readCertificate(o)
	if err != nil {
		return err
	}
	tokens, err := readTokens(engine, o)
	if err != nil {
		return err
	}
	listening, err := openListeners(home, o, cert)
	if err != nil {
		return err
	}
	site := siteName()
	listening.hosts = append(listening.hosts, site)
	expirer := engine.NewExpirer()
	defer runUntilCalled(ctx, expirer.Run)()
	requests, err := engine.OpenRequests()
	if err != nil {
		return errors.Join(err, listening.close())
	}
	defer requests.Close()
	s := rest.New(rest.Config{
		Touch:  expirer.Touch,
		Engine: func(c caller.Caller) rest.Engine { return engine.As(c) }, Tokens: tokens,
		Hosts: listening.hosts, MaxLive: o.MaxLive, MaxRuns: o.MaxRuns,
		CredentialsFile: o.CredentialsFile, GrantsFile: grantsOf(o.Operator),
		Agents: agentsOf(o.Operator, engine), AllowAgents: o.AllowAgents, Publish: publishOf(o),
		UserName: userName, Version: local.Version(), AllowSource: o.AllowSource, Logger: log, Requests: requests, Pool: engine.Pool, Traces: spans,
	})
	mountMCP(s, log)
	mountSite(s, engine, site)
	defer onHangup(func() { reload(log, o, tokens, cert) })()
	if err := ready(listening.names); err != nil {
		return errors.Join(err, listening.close())
	}
	// Without a service manager nothing is notified.
	_, _ = sd.SdNotify(false, sd.SdNotifyReady)
	return s.Serve(ctx, listening.all...)
}

// agentsOf returns the coding agents of the operator's host. The operator's variables are
// not those of callers.
func agentsOf(o api.Operator, e *engine.Engine) session.Host {
	return session.Host{Config: o.Config, Home: o.Home, Path: o.Path, Tools: o.Env, Closed: e.WrittenDirs, Served: true}
}

// grantsOf returns the file of the operator's lasting grants.
func grantsOf(o api.Operator) api.Text {
	if o.Config == "" {
		return ""
	}
	return api.Text(o.Config + "/config.yaml")
}

func publishOf(o api.ServeOptions) rest.PublishConfig {
	p := rest.PublishConfig{Allowed: o.AllowPublish, Env: o.Operator.Env, Home: o.Operator.Home}
	if o.Operator.Config != "" {
		p.Settings = o.Operator.Config + "/publish.yaml"
	}
	return p
}

// readTokens returns the tokens of a home, and of the file of the options.
func readTokens(engine *engine.Engine, o api.ServeOptions) (*token.Book, error) {
	tokens := engine.Tokens()
	if o.Tokens != "" {
		if err := tokens.UseFile(o.Tokens); err != nil {
			return nil, api.Usagef("give a file of `forkcell token create --print-entry`", "--tokens: %v", err)
		}
	}
	return tokens, nil
}

// runUntilCalled runs fn until the returned function is called, also if ctx ends.
func runUntilCalled(ctx context.Context, fn func(context.Context)) (end func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { fn(running) })
	return func() { cancel(); done.Wait() }
}

// collectLess lets the heap of this process grow to five times of what is in use before
// it is collected, unless the operator has chosen another value. A daemon's is a few
// megabytes, and was collected so often that it took a tenth of the processor time.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// onHangup calls a function for each SIGHUP until the returned function is called.
func onHangup(fn func()) (stop func()) {
	heard, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(heard, unix.SIGHUP)
	go func() {
		for {
			select {
			case <-heard:
				fn()
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(heard); close(done) }
}

// reload reads tokens and certificates again. What cannot be read stays as it was.
func reload(log *slog.Logger, o api.ServeOptions, tokens *token.Book, cert *certificate) {
	var err error
	if o.Tokens != "" {
		err = tokens.UseFile(o.Tokens)
	}
	if cert != nil {
		err = errors.Join(err, cert.reload())
	}
	if err != nil {
		log.Error("reload", "error", err)
		return
	}
	log.Warn("reloaded")
}

// userName returns the name of a user, as the command line records it.
func userName(uid int) string {
	name := "unknown"
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("%s (uid %d)", name, uid)
}

// logger logs requests at the level of FORKCELL_LOG; without it, only problems.
func logger(format string, w io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if text := os.Getenv("FORKCELL_LOG"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			level = slog.LevelInfo
		}
	}
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
