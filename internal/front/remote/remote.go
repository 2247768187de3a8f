// Package remote is the engine of a command line that talks to a daemon: it carries
// out the verbs of package cli by requests of the API. The files of a directory of this
// machine and what is written back to it go through the caller's own home.
//
// The daemon may be a stranger's. What it sends is bounded, parsed strictly, and shown
// by the command line as any other foreign text. The package knows no flags and prints
// nothing.
package remote

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Engine carries out verbs by requests to a daemon.
type Engine struct {
	client *client.Client
	caller caller.Caller
	url    string
	homes  Homes
}

// maxToken bounds the file of a token.
const maxToken = 4 << 10

// Open returns the engine of a daemon. It sends nothing. The returned function closes
// the connections.
func Open(o api.DaemonOptions, caller caller.Caller, homes Homes) (*Engine, func() error, error) {
	opts := []client.Option{client.WithURL(o.URL), client.WithCommandHints()}
	if o.TokenFile != "" {
		token, err := readToken(o.TokenFile)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, client.WithToken(token))
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, nil, api.Usagef("as in unix:/run/user/1000/forkcell.sock or https://cells.example.com:7070", "--url: %v", err)
	}
	e := &Engine{client: c, caller: caller, url: o.URL, homes: homes}
	return e, func() error { c.Close(); return nil }, nil
}

// readToken reads a token. A file that others can read is refused, as ssh refuses such
// a key; no other process has the pipe.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", api.Usagef("`forkcell token create` on the machine of the daemon prints one", "--token-file: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return "", api.Refusef(api.CodeNotPrivate, "chmod 600 "+quote.Arg(path), "others can read the token in %s", quote.Path(path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	token := strings.TrimSpace(string(text))
	if err == nil && (token == "" || len(text) > maxToken || strings.ContainsAny(token, "\r\n\x00")) {
		err = errors.New("want one line with a token")
	}
	if err != nil {
		return "", api.Usagef("`forkcell token create` on the machine of the daemon prints one", "--token-file %s: %v", quote.Path(path), err)
	}
	return token, nil
}

// output returns the absolute path of a file to write.
func (e *Engine) output(p string) (string, error) {
	if at := e.path(p); strings.HasPrefix(at, "/") {
		return at, nil
	}
	return "", api.Usagef("give an absolute path", "%s is relative, and there is no working directory", quote.Path(p))
}

// path returns a path that a request names as an absolute one of this machine. "" stays.
func (e *Engine) path(p string) string {
	if p == "" || strings.HasPrefix(p, "/") || e.caller.Dir == "" {
		return p
	}
	return e.caller.Dir + "/" + p
}

// refuseOwnHome refuses a path that contains the caller's own state directory, or is in
// it: that has keys. what names the path for the caller.
func (e *Engine) refuseOwnHome(what, at string) error {
	in, err := fsx.Inside(at, e.homes.Path)
	if err == nil && !in {
		in, err = fsx.Inside(e.homes.Path, at)
	}
	if err != nil {
		return api.Usagef("", "%s %s: %v", what, quote.Path(at), err)
	}
	if in {
		return api.Refusef(api.CodeOverlap, "choose another directory, or another --home",
			"%s %s overlaps the state directory %s", what, quote.Path(at), quote.Path(e.homes.Path))
	}
	return nil
}
