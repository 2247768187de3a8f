package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/web"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// redirectFile is the file in a home that leads a browser to the pages. The code in it
// is for one use; as an argument of the browser every user of the host would see it.
const redirectFile = "ui.html"

// UI gives a person a link to the pages of a daemon, and opens it. Without a daemon it
// serves the pages until ctx ends. shown is called with the link, and whether it is
// served until then.
func UI(ctx context.Context, home string, o api.UIOptions, stderr io.Writer, shown func(link string, serving bool) error) (err error) {
	if home == "" {
		if home, err = local.DefaultHome(); err != nil {
			return err
		}
	}
	remote := o.Daemon.URL != ""
	if !remote {
		o.Daemon.URL = "unix:" + home + "/" + SocketName
	}
	link, err := signInLink(ctx, o)
	if err == nil {
		return showLink(ctx, home, o, link, func(link string) error { return shown(link, false) })
	}
	if remote || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	serving, end := context.WithCancel(ctx)
	defer end()
	failed := make(chan error, 1)
	err = Serve(serving, home, api.ServeOptions{CredentialsFile: o.CredentialsFile, LogFormat: "text"}, stderr, func([]string) error {
		go func() {
			link, err := signInLink(serving, o)
			if err == nil {
				err = showLink(serving, home, o, link, func(link string) error { return shown(link, true) })
			}
			if err != nil {
				failed <- err
				end()
			}
		}()
		return nil
	})
	select {
	case first := <-failed:
		return errors.Join(first, err)
	default:
		return err
	}
}

// signInLink asks a daemon for a link that signs a browser in.
func signInLink(ctx context.Context, o api.UIOptions) (string, error) {
	options := []client.Option{client.WithURL(o.Daemon.URL)}
	if o.Daemon.TokenFile != "" {
		options = append(options, client.WithTokenFile(o.Daemon.TokenFile))
	}
	c, err := client.New(options...)
	if err != nil {
		return "", api.Usagef("give --url as unix:PATH, http://HOST:PORT or https://HOST:PORT", "%v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/ui/code", nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer web.SignIn
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&answer); err != nil {
		return "", fmt.Errorf("read the answer of the daemon: %w", err)
	}
	link, err := checkLink(answer.URL, o.Daemon.URL)
	if err == nil && o.Cell != "" {
		link += "&next=" + url.QueryEscape("/ui/cells/"+url.PathEscape(o.Cell))
	}
	return link, err
}

// showLink shows a link, and opens it if there is a browser.
func showLink(ctx context.Context, home string, o api.UIOptions, link string, shown func(string) error) error {
	if err := shown(link); err != nil || o.NoOpen {
		return err
	}
	if o.Opener == "" || os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil // there is no browser: the link is shown
	}
	file, err := writeRedirect(home, link)
	if err != nil {
		return nil //nolint:nilerr // the link is shown; there may be no home beside a daemon elsewhere
	}
	// A browser that does not start is not an error either.
	command := exec.CommandContext(context.WithoutCancel(ctx), o.Opener, file)
	if o.OpenerPath != "" {
		command.Env = append(os.Environ(), "PATH="+o.OpenerPath)
	}
	if command.Start() == nil {
		go func() { _ = command.Wait() }()
	}
	return nil
}

// writeRedirect writes the file that leads a browser to a link, and returns its URL.
func writeRedirect(home, link string) (string, error) {
	home, err := filepath.Abs(home)
	if err != nil {
		return "", err
	}
	dir, err := fsx.OpenRoot(home)
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	at := html.EscapeString(link)
	page := `<!doctype html><meta charset="utf-8"><title>Forkcell</title><meta http-equiv="refresh" content="0; url=` + at + `"><p><a href="` + at + `">Open the pages</a></p>`
	file := url.URL{Scheme: "file", Path: home + "/" + redirectFile}
	return file.String(), fsx.WriteFile(dir, redirectFile, []byte(page), 0o600)
}
