package daemon_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

const files = "/v1/cells/demo/files"

// put writes a file of the cell demo.
func (d *testDaemon) put(path, text string) {
	d.Helper()
	var info api.FileInfo
	d.want(200, &info, "PUT", files+"?path="+path, text, "Content-Type", "application/octet-stream")
	if info.Size != int64(len(text)) || info.Type != "file" || info.Path != path {
		d.Errorf("%+v", info)
	}
}

// get reads a file of the cell demo.
func (d *testDaemon) get(path string, header ...string) string {
	d.Helper()
	r := d.send("GET", files+"?path="+path, nil, header...)
	if r.status/100 != 2 || r.header.Get("X-Content-Type-Options") != "nosniff" {
		d.Fatalf("%s: %d %v %s", path, r.status, r.header, r.body)
	}
	return string(r.body)
}

// TestFiles reads and changes the files of a live cell, and reads those of an idle
// one.
func TestFiles(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	d.put("a/b/new.txt", "0123456789")
	d.want(200, nil, "PUT", files+"?path=run.sh&mode=755", "", "Content-Type", "application/octet-stream")
	d.want(200, nil, "POST", files+"/mkdir", api.FileRequest{Path: "empty/dir"})
	var moved api.FileInfo
	d.want(200, &moved, "POST", files+"/move", api.MoveFileRequest{From: "hello.txt", To: "a/hello.txt"})
	if moved.Path != "a/hello.txt" {
		t.Errorf("%+v", moved)
	}
	d.exec("demo", "sh", "-c", "ln -s b/new.txt a/link; ln -s /etc/passwd out; ln -s loop loop; mkfifo fifo")
	d.readFiles("live")
	if text := d.get("out"); !strings.Contains(text, "sandbox") { // the cell's own
		t.Error(text)
	}
	d.problem(409, api.CodeNotFile, "GET", files+"?path=fifo", nil)
	d.problem(409, api.CodeExists, "PUT", files+"?path=a", "x", "Content-Type", "application/octet-stream")
	d.problem(409, api.CodeExists, "DELETE", files+"?path=a", nil)
	d.want(204, nil, "DELETE", files+"?path=fifo", nil)
	if p := d.problem(404, api.CodeNotFound, "DELETE", files+"?path=fifo", nil); p.Detail != "demo:fifo: no such file or directory" {
		t.Error(p.Detail) // the path is named once
	}
	d.want(200, nil, "POST", "/v1/cells/demo/stop", nil)

	d.readFiles("idle")
	d.problem(409, api.CodeNotStarted, "GET", files+"?path=out", nil)
	d.problem(409, api.CodeNotStarted, "PUT", files+"?path=x", "x", "Content-Type", "application/octet-stream")
	d.problem(409, api.CodeNotStarted, "DELETE", files+"?path=a", nil)
	d.problem(409, api.CodeNotStarted, "POST", files+"/watch", api.WatchBody{})
	d.want(200, nil, "POST", "/v1/cells/demo/start", nil)
	d.want(204, nil, "DELETE", files+"?path=a&recursive=true", nil)
	d.problem(404, api.CodeNotFound, "POST", files+"/stat", api.FileRequest{Path: "a"})
}

// readFiles reads what TestFiles has made.
func (d *testDaemon) readFiles(state string) {
	d.Helper()
	if text := d.get("a/b/new.txt"); text != "0123456789" {
		d.Errorf("%s: %q", state, text)
	}
	if text := d.get("a/link", "Range", "bytes=2-4"); text != "234" {
		d.Errorf("%s: %q", state, text)
	}
	if text := d.get("a/b/new.txt", "Range", "bytes=-3"); text != "789" {
		d.Errorf("%s: %q", state, text)
	}
	d.problem(416, api.CodeRange, "GET", files+"?path=a/b/new.txt", nil, "Range", "bytes=10-")
	var info api.FileInfo
	d.want(200, &info, "POST", files+"/stat", api.FileRequest{Path: "a/link"})
	if info.Type != "symlink" || info.Target == nil || *info.Target != "b/new.txt" {
		d.Errorf("%s: %+v", state, info)
	}
	d.want(200, &info, "POST", files+"/stat", api.FileRequest{Path: "run.sh"})
	if info.Type != "file" || info.Mode != "0755" {
		d.Errorf("%s: %+v", state, info)
	}
	var list api.FileList
	d.want(200, &list, "POST", files+"/list", api.ListFilesRequest{Path: "a", Depth: 2})
	var names []string
	for _, e := range list.Entries {
		names = append(names, e.Path)
	}
	if got := strings.Join(names, " "); got != "a/b a/b/new.txt a/hello.txt a/link" {
		d.Errorf("%s: %s", state, got)
	}
	d.want(200, &list, "POST", files+"/list", api.ListFilesRequest{})
	if len(list.Entries) < 5 {
		d.Errorf("%s: %+v", state, list)
	}
	d.readArchive(state)
	for _, path := range []string{"none", "a/none", "hello.txt/x", "a/hello.txt/x"} {
		if r := d.send("GET", files+"?path="+path, nil); r.status != 404 && r.status != 409 {
			d.Errorf("%s: %s: %d %s", state, path, r.status, r.body)
		}
	}
	if p := d.problem(409, api.CodeNotFile, "GET", files+"?path=a", nil); !strings.Contains(p.Hint, "application/x-tar") {
		d.Errorf("%s: hint %q", state, p.Hint)
	}
	if r := d.send("GET", files+"?path=loop", nil); r.status != 409 && r.status != 422 {
		d.Errorf("%s: %d %s", state, r.status, r.body)
	}
}

// readArchive reads a directory as an archive.
func (d *testDaemon) readArchive(state string) {
	d.Helper()
	r := d.send("GET", files+"?path=a", nil, "Accept", "application/x-tar")
	if r.status != 200 || r.header.Get("Content-Type") != "application/x-tar" {
		d.Fatalf("%s: %d %s", state, r.status, r.body)
	}
	got := map[string]string{}
	for in := tar.NewReader(bytes.NewReader(r.body)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			d.Fatal(err)
		}
		got[h.Name] = string(text) + h.Linkname
	}
	for name, want := range map[string]string{"./": "", "b/": "", "b/new.txt": "0123456789", "link": "b/new.txt", "hello.txt": "hello\n"} {
		if text, ok := got[name]; !ok || text != want {
			d.Errorf("%s: %s: %q", state, name, text)
		}
	}
}

// TestFilesHostile sends malformed paths and bodies.
func TestFilesHostile(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	for _, path := range []string{"../x", "a/../../x", "/../etc/passwd", "a%00b", strings.Repeat("a/", 3000)} {
		d.problem(400, api.CodeUsage, "GET", files+"?path="+path, nil)
		d.problem(400, api.CodeUsage, "PUT", files+"?path="+path, "x", "Content-Type", "application/octet-stream")
		d.problem(400, api.CodeUsage, "DELETE", files+"?path="+path, nil)
	}
	d.problem(400, api.CodeUsage, "GET", files, nil)
	d.problem(400, api.CodeUsage, "PUT", files+"?path=x&mode=4755", "x", "Content-Type", "application/octet-stream")
	d.problem(415, api.CodeMediaType, "PUT", files+"?path=x", "x", "Content-Type", "text/plain")
	d.problem(422, api.CodeCopy, "PUT", files+"?path=/etc/x", "x", "Content-Type", "application/octet-stream")
	for _, path := range []string{"/dev/zero", "/dev/tty", "/proc/self/fd/3"} {
		if r := d.send("GET", files+"?path="+path, nil); r.status == 200 {
			t.Errorf("%s: %q", path, r.body)
		}
	}
	// A link to a file of the host that no path of the cell leads to.
	secret := filepath.Join(filepath.Dir(d.source), "secret")
	d.source = filepath.Dir(d.source)
	d.write("secret", "of the host")
	d.exec("demo", "ln", "-s", secret, "leak")
	if r := d.send("GET", files+"?path=leak", nil); r.status == 200 {
		t.Errorf("%s", r.body)
	}
	if r := d.send("GET", files+"?path="+secret, nil); r.status == 200 {
		t.Errorf("%s", r.body)
	}
	d.want(200, nil, "POST", "/v1/cells/demo/stop", nil)
	for _, path := range []string{"leak", secret, "/etc/passwd", "/"} {
		d.problem(409, api.CodeNotStarted, "GET", files+"?path="+path, nil)
	}
}

// TestReadSmall reads small files of a live cell without a process in it, and larger
// ones with one.
func TestReadSmall(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	started := func() int {
		r := d.send("GET", "/v1/events?cell=demo", nil)
		return strings.Count(string(r.body), "was executed")
	}
	d.exec("demo", "sh", "-c", "head -c 65536 /dev/zero > small; head -c 65537 /dev/zero > large; : > none; echo no > closed; chmod 0 closed")
	before := started()
	for name, size := range map[string]int{"small": 65536, "none": 0, "hello.txt": 6} {
		if text := d.get(name); len(text) != size {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
	if n := started() - before; n != 0 {
		t.Errorf("%d processes were started to read small files", n)
	}
	if text := d.get("large"); len(text) != 65537 {
		t.Errorf("%d bytes", len(text))
	}
	if n := started() - before; n != 1 {
		t.Errorf("%d processes were started to read a large file", n)
	}
	d.problem(422, api.CodeCopy, "GET", files+"?path=closed", nil)
	if r := d.send("POST", "/v1/cells/demo/pause", nil); r.status == 200 { // not every user has a freezer
		d.problem(409, api.CodePaused, "GET", files+"?path=hello.txt", nil)
		d.want(200, nil, "POST", "/v1/cells/demo/resume", nil)
	}
}

// TestWriteCutOff drops the connection in the middle of a body: the file stays as it
// is, and nothing is left.
func TestWriteCutOff(t *testing.T) {
	d := newDaemon(t)
	d.live("demo")
	before := d.atRest()
	for range 3 {
		conn, err := net.Dial("unix", filepath.Join(d.home, daemon.SocketName))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "PUT %s?path=hello.txt HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: 100000\r\n\r\n%s", files, strings.Repeat("x", 5000))
		_ = conn.Close()
	}
	d.client.CloseIdleConnections()
	before.settle(t)
	if text := d.get("hello.txt"); text != "hello\n" {
		t.Errorf("%q", text)
	}
	// The daemon may have taken the requests only after settle.
	var list api.FileList
	for limit := time.Now().Add(time.Minute); len(list.Entries) != 1; {
		list = api.FileList{}
		d.want(200, &list, "POST", files+"/list", api.ListFilesRequest{})
		if time.Now().After(limit) {
			t.Fatalf("%+v", list)
		}
	}
}

// TestReadCutOff stops to read in the middle of a large file.
func TestReadCutOff(t *testing.T) {
	d := newDaemon(t)
	d.live("demo")
	d.exec("demo", "truncate", "-s", "1G", "large")
	before := d.atRest()
	for _, accept := range []string{"*/*", "application/x-tar"} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+files+"?path=large", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := d.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
			t.Error(err)
		}
		cancel()
		_ = resp.Body.Close()
	}
	d.client.CloseIdleConnections()
	before.settle(t)
}

// TestWatch follows the changes in a directory.
func TestWatch(t *testing.T) {
	d := newDaemon(t)
	d.live("demo")
	before := d.atRest()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+files+"/watch", strings.NewReader(`{"recursive":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.client.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if data != want {
					t.Errorf("%s, want %s", data, want)
				}
				return
			}
		}
		t.Fatalf("%s: %v", want, lines.Err())
	}
	next(`{"event":"started"}`)
	d.exec("demo", "mkdir", "sub")
	next(`{"event":"created","path":"sub"}`)
	d.exec("demo", "sh", "-c", "echo hi > sub/file")
	next(`{"event":"created","path":"sub/file"}`)
	next(`{"event":"modified","path":"sub/file"}`)
	d.exec("demo", "mv", "sub/file", "file")
	next(`{"event":"renamed","path":"file","from":"sub/file"}`)
	d.exec("demo", "mv", "file", "/tmp/file")
	next(`{"event":"removed","path":"file"}`)
	d.exec("demo", "rm", "hello.txt")
	next(`{"event":"removed","path":"hello.txt"}`)
	cancel()
	_ = resp.Body.Close()
	d.client.CloseIdleConnections()
	before.settle(t)
	d.problem(404, api.CodeNotFound, "POST", files+"/watch", api.WatchBody{Path: "none"})
	d.problem(409, api.CodeNotFile, "POST", files+"/watch", api.WatchBody{Path: "/etc/passwd"})
}

// TestNamesThatAreNotUTF8 lists, reads, writes, watches and removes files with such
// names, in a live cell and in a state.
func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	d.exec("demo", "sh", "-c", `printf one > "$(printf 'a\377')"; printf two > "$(printf 'a\376')"; ln -s "$(printf 'to\377')" "$(printf 'l\377')"`)
	d.want(200, nil, "PUT", "/v1/cells/demo/files?path=w%FE", "three", "Content-Type", "application/octet-stream")
	names := []string{"demo", "state"}
	if r := d.send("POST", "/v1/cells/demo/fork", api.ForkBody{Name: "state"}); lacksFreezer(r) {
		names = names[:1]
	} else if r.status != 201 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for _, name := range names {
		r := d.send("POST", "/v1/cells/"+name+"/files/list", api.ListFilesRequest{})
		var raw struct {
			Entries []struct {
				Path   string `json:"path"`
				Base64 []byte `json:"path_base64"`
				Target []byte `json:"target_base64"`
			}
		}
		if err := json.Unmarshal(r.body, &raw); err != nil || r.status != 200 {
			t.Fatalf("%d %v %s", r.status, err, r.body)
		}
		found := map[string]string{}
		for _, e := range raw.Entries {
			if len(e.Base64) > 0 {
				found[path.Base(string(e.Base64))] = string(e.Target)
			}
		}
		if want := map[string]string{"a\377": "", "a\376": "", "w\376": "", "l\377": "to\377"}; !maps.Equal(found, want) {
			t.Errorf("%s: have %q in %s", name, found, r.body)
		}
		for file, text := range map[string]string{"a%FF": "one", "a%FE": "two", "w%FE": "three"} {
			if r := d.send("GET", "/v1/cells/"+name+"/files?path="+file, nil); string(r.body) != text {
				t.Errorf("%s %s: %d %s", name, file, r.status, r.body)
			}
		}
		d.problem(404, api.CodeNotFound, "GET", "/v1/cells/"+name+"/files?path=b%FF", nil)
	}
	d.want(204, nil, "DELETE", "/v1/cells/demo/files?path=a%FF", nil)
	d.want(200, nil, "GET", "/v1/cells/demo/files?path=a%FE", nil)
}
