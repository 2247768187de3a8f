package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// must ends a test whose fixtures cannot be made.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// content is one file of an archive.
type content struct{ name, text string }

func zipOf(t *testing.T, list ...content) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range list {
		w, err := z.Create(f.name)
		must(t, err)
		_, err = w.Write([]byte(f.text))
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

func tarballOf(t *testing.T, list ...content) []byte {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, f := range list {
		must(t, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text)), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(f.text))
		must(t, err)
	}
	must(t, w.Close())
	must(t, g.Close())
	return b.Bytes()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// pythonIndex is a simple index with one wheel.
func pythonIndex(t *testing.T) http.Handler {
	t.Helper()
	return pythonIndexOf(t, "tiny")
}

func pythonIndexOf(t *testing.T, pkg string) http.Handler {
	t.Helper()
	info := pkg + "-1.0.dist-info/"
	wheel := zipOf(t,
		content{pkg + ".py", "word = '" + payload + "'\n"},
		content{info + "METADATA", "Metadata-Version: 2.1\nName: " + pkg + "\nVersion: 1.0\n"},
		content{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		content{info + "RECORD", pkg + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	)
	name := pkg + "-1.0-py3-none-any.whl"
	page := fmt.Sprintf("<!DOCTYPE html><html><body><a href=\"/files/%s#sha256=%s\">%s</a></body></html>", name, digest(wheel), name)
	list := files(map[string][]byte{"/files/" + name: wheel})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/simple/"+pkg+"/" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(page))
			return
		}
		list.ServeHTTP(w, r)
	})
}

// npmRegistry has its own package and one of a scope, whose name npm sends
// with an encoded slash.
func npmRegistry(t *testing.T) http.Handler {
	t.Helper()
	pages := map[string][]byte{}
	for _, name := range []string{"tiny", "@scope/tiny"} {
		manifest := map[string]any{"name": name, "version": "1.0.0", "main": "index.js"}
		text, err := json.Marshal(manifest)
		must(t, err)
		tarball := tarballOf(t, content{"package/package.json", string(text)}, content{"package/index.js", "module.exports = '" + payload + "'\n"})
		path := "/" + name + "/-/tiny-1.0.0.tgz"
		sum := sha1.Sum(tarball)
		manifest["dist"] = map[string]any{"tarball": "https://npm.example.com" + path, "shasum": hex.EncodeToString(sum[:])}
		pages["/"+name], err = json.Marshal(map[string]any{
			"name": name, "dist-tags": map[string]any{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": manifest},
		})
		must(t, err)
		pages[path] = tarball
	}
	return files(pages)
}

// moduleProxy serves one Go module.
func moduleProxy(t *testing.T) http.Handler {
	t.Helper()
	mod := "module example.com/tiny\n\ngo 1.20\n"
	prefix := "example.com/tiny@v1.0.0/"
	at := "/example.com/tiny/@v/"
	return files(map[string][]byte{
		at + "list":        []byte("v1.0.0\n"),
		at + "v1.0.0.info": []byte(`{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}`),
		at + "v1.0.0.mod":  []byte(mod),
		at + "v1.0.0.zip":  zipOf(t, content{prefix + "go.mod", mod}, content{prefix + "tiny.go", "package tiny\n\nconst Word = \"" + payload + "\"\n"}),
	})
}

// crateRegistry is a sparse registry with one crate.
func crateRegistry(t *testing.T) http.Handler {
	t.Helper()
	crate := tarballOf(t,
		content{"tiny-1.0.0/Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"},
		content{"tiny-1.0.0/src/lib.rs", "pub const WORD: &str = \"" + payload + "\";\n"},
	)
	return files(map[string][]byte{
		"/index/config.json":   []byte(`{"dl":"https://crates.example.com/dl/{crate}/{version}.crate"}`),
		"/index/ti/ny/tiny":    []byte(`{"name":"tiny","vers":"1.0.0","deps":[],"cksum":"` + digest(crate) + `","features":{},"yanked":false}` + "\n"),
		"/dl/tiny/1.0.0.crate": crate,
	})
}

// gitServer serves one repository as git's own server does, pushes included.
func gitServer(t *testing.T) http.Handler {
	t.Helper()
	root := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=lab", "GIT_AUTHOR_EMAIL=lab@example.com", "GIT_COMMITTER_NAME=lab", "GIT_COMMITTER_EMAIL=lab@example.com")
		out, errs, err := finish(t, cmd)
		if err != nil {
			t.Fatalf("git %q: %v\n%s%s", args, err, out, errs)
		}
		return strings.TrimSpace(out)
	}
	git("init", "-q", "-b", "main", "seed")
	must(t, os.WriteFile(filepath.Join(root, "seed", "file"), []byte(payload+"\n"), 0o644))
	git("-C", "seed", "add", "file")
	git("-C", "seed", "commit", "-q", "-m", "one")
	git("clone", "-q", "--bare", "seed", "repo.git")
	git("-C", "repo.git", "config", "http.receivepack", "true")
	return &cgi.Handler{
		Path: filepath.Join(git("--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"},
	}
}
