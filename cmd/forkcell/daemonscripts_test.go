package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/daemon"
	"github.com/forkcell/forkcell/internal/front/local"
)

// overADaemon lists scripts of the manual that use nothing which only a home has, such
// as --home, recover and paths of the host.
func overADaemon() []string {
	return []string{
		"accept-default", "accept-reject", "apply-control", "apply-git", "backends", "checkpoint-restore", "decisions", "df",
		"diff", "diff-pager", "diff-states", "export", "export-linked", "fork", "gc", "init-git", "list",
		"live-diff", "live-logs", "live-refused", "live-start-stop", "policy-etc", "race-accept", "race-choose", "race-options", "receipt", "refresh",
		"rm", "root", "run-busy", "run-denied", "run-interrupt", "run-streams", "run-terminal", "secrets", "session-limits",
		"uninspected", "usage-cells",
	}
}

// TestScriptsOverADaemon runs scripts of the manual through a daemon: the same commands
// behave the same.
func TestScriptsOverADaemon(t *testing.T) {
	t.Parallel()
	p := scriptParams("script", nil)
	for _, name := range overADaemon() {
		p.Files = append(p.Files, filepath.Join(p.Dir, name+".txtar"))
	}
	p.Dir = ""
	p.UpdateScripts = false // what they show is that of the program itself
	setUp := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setUp(env); err != nil {
			return err
		}
		return serveScript(env)
	}
	testscript.Run(t, p)
}

// overTCP lists scripts of the manual that read a directory of this machine, and write
// to it.
func overTCP() []string {
	return []string{
		"accept-default", "accept-reject", "apply", "apply-conflicts", "apply-control", "apply-git", "checkpoint-restore", "decisions", "df", "diff", "diff-pager",
		"diff-states", "export", "fork", "holes", "init-git", "live-cp", "live-diff", "live-logs", "live-pause", "live-port-forward", "names", "names-directory",
		"race", "race-accept", "race-choose", "race-options", "race-warm", "receipt", "refresh", "rm", "root", "run-busy", "run-interrupt", "run-limits", "run-result",
		"run-streams", "run-terminal", "secrets", "try", "usage-cells", "warm-branch", "warm-policy",
	}
}

// TestScriptsOverTCP runs scripts of the manual through a daemon that does not see the
// caller's files.
func TestScriptsOverTCP(t *testing.T) {
	t.Parallel()
	p := scriptParams("script", nil)
	for _, name := range overTCP() {
		p.Files = append(p.Files, filepath.Join(p.Dir, name+".txtar"))
	}
	p.Dir = ""
	p.UpdateScripts = false
	setUp := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setUp(env); err != nil {
			return err
		}
		return serveElsewhere(env)
	}
	testscript.Run(t, p)
}

// serveElsewhere starts a daemon on a home that is not the script's, which then talks to
// it over TCP.
func serveElsewhere(env *testscript.Env) error {
	dir, err := os.MkdirTemp("", "fc")
	if err != nil {
		return err
	}
	env.Defer(func() { _ = os.RemoveAll(dir) })
	home, file, err := tokenHome(dir)
	if err != nil {
		return err
	}
	at, stop, err := serveHome(home, api.ServeOptions{Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		return err
	}
	env.Defer(stop)
	env.Setenv("FORKCELL_URL", "http://"+at[0])
	env.Setenv("FORKCELL_TOKEN_FILE", file)
	return nil
}

// tokenHome makes a home for a daemon in a directory, with a token in a file.
func tokenHome(dir string) (home, file string, err error) {
	home, file = filepath.Join(dir, "home"), filepath.Join(dir, "token")
	e, release, err := local.Open(home, local.Create, caller.Caller{Actor: func() string { return "test" }})
	if err != nil {
		return "", "", err
	}
	made, err := e.TokenCreate(context.Background(), api.TokenRequest{Name: "test", Scopes: []string{"admin"}})
	if err = errors.Join(err, release()); err != nil {
		return "", "", err
	}
	return home, file, os.WriteFile(file, []byte(made.Token+"\n"), 0o600)
}

// serveScript starts a daemon on the home of a script, which then talks to it.
func serveScript(env *testscript.Env) error {
	dir, err := os.MkdirTemp("", "fc") // short: it holds a socket
	if err != nil {
		return err
	}
	url := "unix:" + filepath.Join(dir, "s")
	_, stop, err := serveHome(filepath.Join(env.WorkDir, "state"), api.ServeOptions{Listen: []string{url}})
	env.Defer(func() {
		stop()
		_ = os.RemoveAll(dir)
	})
	env.Setenv("FORKCELL_URL", url)
	return err
}

// serveHome starts a daemon, and returns where it listens. stop ends it.
func serveHome(home string, o api.ServeOptions) (addresses []string, stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan []string, 1), make(chan error, 1)
	go func() {
		ended <- daemon.Serve(ctx, home, o, io.Discard, func(at []string) error { listening <- at; return nil })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	select {
	case addresses = <-listening:
		return addresses, stop, nil
	case err := <-ended:
		cancel()
		return nil, func() {}, err
	}
}

// daemon start [--tls FILE] HOME, or daemon stop: a daemon on loopback at $PORT.
func (d *scriptDaemons) command(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: daemon start [--tls FILE] HOME | daemon stop")
	}
	if args[0] == "stop" {
		found, _ := d.stops.Load(ts)
		stop, ok := found.(func())
		if !ok {
			ts.Fatalf("no daemon was started")
		}
		stop()
		return
	}
	o := api.ServeOptions{Listen: []string{"127.0.0.1:0"}, Hosts: []string{"localhost"}}
	if len(args) == 4 && args[1] == "--tls" {
		o.TLSCert, o.TLSKey = ts.MkAbs(args[2]), ts.MkAbs(args[2])
	}
	at, stop, err := serveHome(ts.MkAbs(args[len(args)-1]), o)
	ts.Check(err)
	d.stops.Store(ts, stop)
	ts.Defer(stop)
	_, port, err := net.SplitHostPort(at[0])
	ts.Check(err)
	ts.Setenv("PORT", port)
}

// scriptDaemons has the functions that end the daemons of scripts, by the script.
type scriptDaemons struct{ stops sync.Map }
