package daemon_test

import (
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// fakeBrowser makes a browser, and returns a pipe on which it says what it was started
// with.
func fakeBrowser(t *testing.T) (opener, seen string) {
	t.Helper()
	dir := t.TempDir()
	seen = filepath.Join(dir, "seen")
	if err := unix.Mkfifo(seen, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec printf '%s\\n' \"$*\" > " + seen + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DISPLAY", ":0")
	return filepath.Join(dir, "xdg-open"), seen
}

// TestUIOpens: the browser is started with a file that only the user can read. The code
// is in it, and not among the arguments, which every user of the host can see.
func TestUIOpens(t *testing.T) { //nolint:paralleltest // it changes variables
	d := newDaemon(t)
	d.cell("demo")
	opener, seen := fakeBrowser(t)
	var link string
	err := daemon.UI(t.Context(), d.home, api.UIOptions{Cell: "demo", Opener: opener}, io.Discard, func(l string, serving bool) error {
		if link = l; serving {
			t.Error("a daemon serves already")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	args, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	code := u.Query().Get("code")
	file := filepath.Join(d.home, "ui.html")
	if strings.TrimSpace(string(args)) != "file://"+file || len(code) < 50 || strings.Contains(string(args), code) {
		t.Errorf("the browser got %q for %s", args, link)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), code) {
		t.Errorf("the file does not lead to the pages: %s %v", text, err)
	}
	r := emptyReviewer(d, "http://"+u.Host)
	r.get(200, u.RequestURI())
	r.has("url=/ui/cells/demo")
}

// TestUIOpensRelative: the browser gets an absolute URL of a home with any name.
func TestUIOpensRelative(t *testing.T) { //nolint:paralleltest // it changes the working directory
	d := newRemote(t, api.ServeOptions{})
	opener, seen := fakeBrowser(t)
	t.Chdir(t.TempDir())
	if err := os.Mkdir("my home#1%", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := daemon.UI(t.Context(), "my home#1%", d.uiByToken(opener), io.Discard, func(string, bool) error { return nil }); err != nil {
		t.Fatal(err)
	}
	args, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(string(args)), "file://"+dir+"/my%20home%231%25/ui.html"; got != want {
		t.Errorf("the browser got %s, want %s", got, want)
	}
}

// uiByToken returns options that name the daemon by its address.
func (d *testDaemon) uiByToken(opener string) api.UIOptions {
	d.Helper()
	file := filepath.Join(d.TempDir(), "token")
	secret := d.token(api.TokenBody{Name: "viewer", Scopes: []string{"read"}}).client.Transport.(bearer).secret
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		d.Fatal(err)
	}
	return api.UIOptions{Daemon: api.DaemonOptions{URL: "http://" + d.addresses[1], TokenFile: file}, Opener: opener}
}

// TestUIWithoutHome: a machine without a home shows the link to a daemon elsewhere.
func TestUIWithoutHome(t *testing.T) { //nolint:paralleltest // it changes variables
	d := newRemote(t, api.ServeOptions{})
	opener, _ := fakeBrowser(t)
	shown := ""
	err := daemon.UI(t.Context(), filepath.Join(t.TempDir(), "none"), d.uiByToken(opener), io.Discard, func(link string, _ bool) error { shown = link; return nil })
	if err != nil || shown == "" {
		t.Errorf("%q, %v", shown, err)
	}
}

// TestUIServes: without a daemon the command serves the pages until it is ended.
func TestUIServes(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "fc") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(t.Context())
	links, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- daemon.UI(ctx, filepath.Join(dir, "home"), api.UIOptions{NoOpen: true}, io.Discard, func(l string, serving bool) error {
			if !serving {
				t.Error("nobody else serves")
			}
			links <- l
			return nil
		})
	}()
	select {
	case link := <-links:
		u, err := url.Parse(link)
		if err != nil {
			t.Error(err)
			break
		}
		r := emptyReviewer(&testDaemon{TB: t}, "http://"+u.Host)
		r.get(200, u.RequestURI())
		r.get(200, "/ui/")
		r.browser.CloseIdleConnections()
	case err := <-ended:
		t.Fatal("it ended:", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
