package daemon_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// tarOf returns an archive of one file.
func tarOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (d *testDaemon) upload(data []byte) api.Upload {
	d.Helper()
	var up api.Upload
	d.want(http.StatusCreated, &up, "POST", "/v1/uploads", string(data), "Content-Type", "application/x-tar")
	return up
}

// uploads counts the files that the daemon keeps of uploads.
func (d *testDaemon) uploads() int {
	d.Helper()
	names, err := os.ReadDir(filepath.Join(d.home, "uploads"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.Fatal(err)
	}
	return len(names)
}

// TestSources makes cells of every source.
func TestSources(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	var made api.InitResult
	h := d.want(201, &made, "POST", "/v1/cells", api.CreateCell{Name: "demo", Source: &api.Source{Empty: true}})
	if made.Files != 0 || made.MountAt != "/workspace" || h.Get("Location") != "/v1/cells/demo" {
		t.Errorf("%+v", made)
	}
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "echo hi > new"}})
	if text := d.get("new"); text != "hi\n" {
		t.Errorf("%q", text)
	}
	d.problem(422, api.CodeNoSource, "POST", "/v1/cells/demo/refresh", nil)
	data := tarOf(t, "dir/file", "uploaded\n")
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err == nil {
		_, err = z.Write(data)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{"plain": data, "packed": packed.Bytes()} {
		up := d.upload(body)
		sum := sha256.Sum256(body)
		if up.Bytes != int64(len(body)) || up.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%+v", up)
		}
		d.want(201, &made, "POST", "/v1/cells", api.CreateCell{Name: name, Source: &api.Source{Upload: up.Upload}})
		if made.Files != 1 {
			t.Errorf("%+v", made)
		}
		if r := d.send("GET", "/v1/cells/"+name+"/files?path=dir/file", nil); string(r.body) != "uploaded\n" {
			t.Errorf("%d %s", r.status, r.body)
		}
		d.problem(404, api.CodeNotFound, "POST", "/v1/cells", api.CreateCell{Name: "again", Source: &api.Source{Upload: up.Upload}})
	}
	var forks api.ForkedCells
	h = d.want(201, &forks, "POST", "/v1/cells", api.CreateCell{Name: "try", ForkOf: "demo", N: 2})
	if len(forks.Cells) != 2 || forks.Cells[1].Cell != "try-2" || h.Get("Location") != "/v1/cells/try-1" {
		t.Errorf("%+v", forks)
	}
	if d.uploads() != 0 {
		t.Error("an upload is left")
	}
}

// TestSourcesHostile sends sources that cannot be used.
func TestSourcesHostile(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	for _, body := range []string{
		`{"name":"x"}`, `{"name":"x","source":{}}`, `{"name":"x","source":{"empty":true,"path":"/tmp"}}`, `{"name":"x","source":{"empty":true},"n":2}`,
		`{"fork_of":"demo","source":{"empty":true}}`, `{"fork_of":"demo","policy":"offline"}`,
	} {
		d.problem(400, api.CodeUsage, "POST", "/v1/cells", body)
	}
	for _, id := range []string{"upl_none", "../keys", "upl_/../../x", "/etc/passwd", "upl_\u0000"} {
		d.problem(404, api.CodeNotFound, "POST", "/v1/cells", api.CreateCell{Name: "x", Source: &api.Source{Upload: id}})
	}
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells", api.CreateCell{Name: "x", ForkOf: "none"})
	for name, data := range map[string][]byte{"text": []byte("no archive"), "out": tarOf(t, "../out", "x"), "absolute": tarOf(t, "/etc/x", "x")} {
		up := d.upload(data)
		d.want(400, nil, "POST", "/v1/cells", api.CreateCell{Name: name, Source: &api.Source{Upload: up.Upload}})
	}
	conn, err := net.Dial("unix", filepath.Join(d.home, daemon.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	before := d.uploads()
	fmt.Fprintf(conn, "POST /v1/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\ncut off")
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil { // until the daemon has given up
		t.Fatal(err)
	}
	_ = conn.Close()
	if d.uploads() != before {
		t.Error("an upload that was cut off is kept")
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{})
	if d.uploads() != 0 {
		t.Error("an upload outlives the daemon")
	}
}

// TestExport reads states as archives, and lists them.
func TestExport(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "echo hi > new"}})
	var list api.List[api.CheckpointInfo]
	d.want(200, &list, "GET", "/v1/cells/demo/checkpoints", nil)
	if len(list.Items) != 2 || list.Items[0].Parent != "" || !list.Items[1].Head || list.Items[1].Parent != list.Items[0].CheckpointID {
		t.Fatalf("%+v", list)
	}
	d.want(200, &list, "GET", "/v1/cells/demo/checkpoints?limit=1", nil)
	if len(list.Items) != 1 || list.Next == nil {
		t.Errorf("%+v", list)
	}
	for query, want := range map[string]string{"": "./ ./hello.txt ./new ", "?changes=true": "./new ", "?checkpoint=" + list.Items[0].CheckpointID: "./ ./hello.txt "} {
		r := d.send("GET", "/v1/cells/demo/export"+query, nil)
		names := ""
		for in := tar.NewReader(bytes.NewReader(r.body)); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag != tar.TypeXGlobalHeader {
				names += h.Name + " "
			}
		}
		if names != want || r.header.Get("Content-Type") != "application/x-tar" {
			t.Errorf("%s: %q, want %q", query, names, want)
		}
	}
	d.problem(404, api.CodeNotFound, "GET", "/v1/cells/demo/export?checkpoint=chk_none", nil)
	d.problem(404, api.CodeNotFound, "GET", "/v1/cells/none/checkpoints", nil)
}

// TestUploadsOfOthers names an upload that another caller made.
func TestUploadsOfOthers(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	one, two := d.token(api.TokenBody{Name: "one", Scopes: []string{"run"}}), d.token(api.TokenBody{Name: "two", Scopes: []string{"admin"}})
	up := one.upload(tarOf(t, "file", "mine\n"))
	for _, other := range []*testDaemon{two, d} {
		other.problem(404, api.CodeNotFound, "POST", "/v1/cells", api.CreateCell{Name: "stolen", Source: &api.Source{Upload: up.Upload}})
	}
	one.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "own", Source: &api.Source{Upload: up.Upload}})
	one.problem(400, api.CodeUsage, "POST", "/v1/uploads", "archive", "Idempotency-Key", "key")
	if d.uploads() != 0 {
		t.Error("an upload is left")
	}
}

// TestArchiveOfTheHost makes cells from archives of the host with a token. One outside
// of what the operator allows is refused, also through a link.
func TestArchiveOfTheHost(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(d.source, "inside")
	data := string(tarOf(t, "file", "archived\n"))
	d.write("inside/in.tar", data)
	d.write("out.tar", data)
	if err := os.Symlink(filepath.Join(d.source, "out.tar"), filepath.Join(inside, "link.tar")); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{Listen: []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "127.0.0.1:0"}, AllowSource: []string{inside}})
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	runner.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "in", Source: &api.Source{Path: inside + "/in.tar"}})
	for _, path := range []string{d.source + "/out.tar", inside + "/link.tar", inside + "/../out.tar"} {
		runner.problem(403, api.CodeForbidden, "POST", "/v1/cells", api.CreateCell{Name: "out", Source: &api.Source{Path: path}})
	}
	d.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "out", Source: &api.Source{Path: inside + "/link.tar"}})
}

// TestForkOfALiveCell forks the present state of a live cell.
func TestForkOfALiveCell(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	d.exec("demo", "sh", "-c", "echo now > file")
	var forks api.ForkedCells
	r := d.send("POST", "/v1/cells/demo/fork", api.ForkBody{Name: "try", N: 2, Live: true})
	if lacksFreezer(r) {
		t.Skip("needs a freezer, which not every user has")
	}
	if r.status != 201 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	decodeInto(d, r.body, &forks)
	if len(forks.Cells) != 2 || forks.Cells[0].Cell != "try-1" {
		t.Errorf("%+v", forks)
	}
	if r := d.send("GET", "/v1/cells/try-2/files?path=file", nil); string(r.body) != "now\n" {
		t.Errorf("%d %s", r.status, r.body)
	}
	d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "x", Live: true, Checkpoint: forks.CheckpointID})
	d.problem(409, api.CodeNotStarted, "POST", "/v1/cells/try-1/fork", api.ForkBody{Name: "x", Live: true})
}
