package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/cli"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// lie replaces an answer of a daemon whose path ends with a word.
type lie struct {
	name, path string
	body       []byte
}

// tarOf returns an archive of entries: a name, and contents or "-> TARGET".
func tarOf(t *testing.T, entries ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		h := &tar.Header{Name: entries[i], Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(entries[i+1]))}
		target, link := strings.CutPrefix(entries[i+1], "-> ")
		if link {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		}
		must(t, w.WriteHeader(h))
		if !link {
			_, err := io.WriteString(w, entries[i+1])
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

// lyingDaemon serves a daemon through a proxy that tells the present lie.
func lyingDaemon(t *testing.T, dir string, present *atomic.Pointer[lie]) (where string, tokenFile string) {
	t.Helper()
	at, file := tokenDaemon(t, dir)
	target, err := url.Parse("http://" + at)
	must(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if l := present.Load(); l != nil && strings.HasSuffix(r.Request.URL.Path, l.path) {
				_ = r.Body.Close()
				r.Body, r.ContentLength, r.Trailer = io.NopCloser(bytes.NewReader(l.body)), int64(len(l.body)), nil
				r.Header.Del("Content-Length")
				r.Header.Del("Trailer")
			}
			return nil
		},
	})
	t.Cleanup(proxy.Close)
	return proxy.URL, file
}

// tokenDaemon starts a daemon on loopback, with a token in a file.
func tokenDaemon(t *testing.T, dir string) (at, tokenFile string) {
	t.Helper()
	home, file, err := tokenHome(dir)
	must(t, err)
	addresses, stop, err := serveHome(home, api.ServeOptions{Listen: []string{"127.0.0.1:0"}})
	must(t, err)
	t.Cleanup(stop)
	return addresses[0], file
}

// TestHostileDaemon: whatever a daemon sends, the directory of its caller stays as it
// was, and nothing appears elsewhere. Without a lie the same apply writes.
func TestHostileDaemon(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	var present atomic.Pointer[lie]
	where, file := lyingDaemon(t, dir, &present)
	source := filepath.Join(dir, "source")
	must(t, os.Mkdir(source, 0o755))
	must(t, os.WriteFile(filepath.Join(source, "f"), []byte("one\n"), 0o644))
	caller := caller.Caller{Actor: func() string { return "test" }, Dir: dir, Env: os.Environ()}
	e, release, err := daemon.Remote(api.DaemonOptions{URL: where, TokenFile: file}, filepath.Join(dir, "own"), caller)
	must(t, err)
	t.Cleanup(func() { must(t, release()) })
	_, err = e.Init(ctx, api.InitRequest{Name: "demo", From: source, Runtime: "native"})
	must(t, err)
	_, err = e.Run(ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo two > f"}}, engine.Stdio{})
	must(t, err)
	_, err = e.Accept(ctx, api.AcceptRequest{Cell: "demo"})
	must(t, err)
	for _, l := range lies(t) {
		present.Store(&l)
		tryLie(ctx, t, e, l.name, dir)
	}
	present.Store(nil)
	_, err = e.Apply(ctx, api.ApplyRequest{Cell: "demo"})
	must(t, err)
	if text, err := os.ReadFile(filepath.Join(source, "f")); err != nil || string(text) != "two\n" {
		t.Errorf("without a lie the file is %q, %v", text, err)
	}
}

func lies(t *testing.T) []lie {
	t.Helper()
	other := tarOf(t, "./f", "evil\n")
	outside := tarOf(t, "../outside", "evil\n")
	linked := tarOf(t, "d", "-> ..", "d/outside", "evil\n")
	none := `{"cell":"demo","cell_id":"","checkpoint_id":"","root":"","sources":null,"undecided":""}`
	return []lie{
		{"another state", "/export", other},
		{"a path that leads out", "/export", outside},
		{"a link that leads out", "/export", linked},
		{"a compressed archive", "/export", []byte("\x28\xb5\x2f\xfd and more")},
		{"no archive", "/export", []byte("nothing")},
		{"an archive that is cut off", "/export", other[:700]},
		{"an empty answer", "/export", nil},
		{"an accepted state of no cell", "/accepted", []byte(none)},
		{"an id that leads out", "/accepted", []byte(strings.Replace(none, `"cell_id":""`, `"cell_id":"../x"`, 1))},
		{"no document", "/accepted", []byte("{")},
		{"a copy with a path that leads out", "/files", tarOf(t, "root/../outside", "evil\n", "end", "")},
		{"a copy through a link", "/files", tarOf(t, "root", "-> ..", "root/outside", "evil\n", "end", "")},
		{"a copy that is cut off", "/files", tarOf(t, "root", "evil\n")},
	}
}

// tryLie lets the verbs that write to this machine meet a lie.
func tryLie(ctx context.Context, t *testing.T, e cli.Engine, name, dir string) {
	t.Helper()
	met := 0
	if _, err := e.Apply(ctx, api.ApplyRequest{Cell: "demo", DryRun: true}); err != nil {
		met++
		if _, err := e.Apply(ctx, api.ApplyRequest{Cell: "demo"}); err == nil {
			t.Errorf("%s: the apply was done", name)
		}
	}
	if _, err := e.Export(ctx, api.ExportRequest{Cell: "demo", Output: "out"}); err != nil {
		met++
	} else {
		must(t, os.RemoveAll(filepath.Join(dir, "out")))
	}
	if _, err := e.CopyOut(ctx, api.CopyRequest{Cell: "demo", Path: "f", Host: "copy"}); err != nil {
		met++
	} else {
		must(t, os.Remove(filepath.Join(dir, "copy")))
	}
	if met == 0 {
		t.Errorf("%s: nobody noticed", name)
	}
	text, err := os.ReadFile(filepath.Join(dir, "source", "f"))
	if err != nil || string(text) != "one\n" {
		t.Errorf("%s: the file is %q, %v", name, text, err)
	}
	for _, path := range []string{"outside", "out", "copy", "own/outside", "own/remotes/outside", "source/outside", "source/d"} {
		if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s: there is %s", name, path)
		}
	}
}
