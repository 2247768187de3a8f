package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// devClient is a package tool that is set, in the operator's own files, to use a
// registry of this host.
type devClient struct {
	tools  []string
	host   string
	server func(t *testing.T) http.Handler
	config string // a file in the operator's home directory
	text   string // what it holds, with the address of the registry for %s
	script string
}

func devClients(goroot string) map[string]devClient {
	return map[string]devClient{
		"pip": {
			tools: []string{"/usr/bin/pip3", "/usr/bin/python3"}, host: "pypi.example.com", server: pythonIndex,
			config: ".config/pip/pip.conf", text: "[global]\nindex-url = https://%s/simple\n",
			script: "/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --retries 0 --target lib tiny &&" +
				" PYTHONPATH=lib /usr/bin/python3 -c 'import tiny; print(tiny.word)'",
		},
		"npm": {
			tools: []string{"/usr/bin/npm", "/usr/bin/node"}, host: "npm.example.com", server: npmRegistryAtPort,
			config: ".npmrc", text: "registry=https://%s/\n",
			script: "npm install --silent --no-audit --no-fund --no-update-notifier --fetch-retries=0 tiny @scope/tiny &&" +
				" node -p 'require(\"tiny\") + require(\"@scope/tiny\")'",
		},
		"go": {
			tools: []string{goroot + "/bin/go"}, host: "modules.example.com", server: moduleProxy,
			config: ".config/go/env", text: "GOPROXY=https://%s\nGOSUMDB=off\n",
			// Without -modcacherw the test could not remove what go has fetched.
			script: "GOTOOLCHAIN=local GOFLAGS='-mod=mod -modcacherw' " + goroot + "/bin/go mod download example.com/tiny@v1.0.0 &&" +
				" cat ~/go/pkg/mod/example.com/tiny@v1.0.0/tiny.go",
		},
	}
}

// npmRegistryAtPort is npmRegistry where it is asked: its documents have the whole
// addresses of packages.
func npmRegistryAtPort(t *testing.T) http.Handler {
	t.Helper()
	registry := npmRegistry(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		registry.ServeHTTP(answer, r)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte("https://npm.example.com/"), []byte("https://"+r.Host+"/")))
	})
}

// TestEgressDevRegistries lets real package tools fetch through --policy dev from a
// registry at a loopback address, which only the operator's own settings name. The
// registry's name is known in a mount namespace of the test's own, where /etc has a
// mount in it, as in a container. The same policy as a file has no such grant.
func TestEgressDevRegistries(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("an /etc/hosts of its own needs a mount namespace, and so root")
	}
	goroot := ""
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		goroot = strings.TrimSpace(string(out))
	}
	for name, c := range devClients(goroot) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need(t, append(c.tools, "/usr/bin/unshare")...)
			l := newLab(t)
			s := l.site(c.host, c.server(t))
			_, port, err := net.SplitHostPort(s.addr)
			l.ok(err)
			at := net.JoinHostPort(c.host, port)
			config := filepath.Join(l.dir, "home", c.config)
			l.ok(os.MkdirAll(filepath.Dir(config), 0o755))
			l.ok(os.WriteFile(config, fmt.Appendf(nil, c.text, at), 0o644))
			l.ok(os.WriteFile(filepath.Join(l.dir, "hosts"), []byte("127.0.0.1 localhost "+c.host+"\n"), 0o644))
			l.env = []string{"PATH=" + filepath.Dir(forkcellPath(t)) + ":" + filepath.Dir(c.tools[0]) + ":/usr/bin:/bin"}

			l.inside(0, "init", "box", "--from", "work")
			run := []string{"run", "--timeout", "40s", "--ca", "ca.pem"}
			if name == "go" && !strings.HasPrefix(goroot, "/usr/") {
				run = append(run, "--ro", goroot)
			}
			// The same policy without the operator's tools: the address is not granted.
			l.ok(os.WriteFile(filepath.Join(l.dir, "dev.yaml"), []byte(l.inside(0, "policy", "show", "dev")), 0o644))
			said := l.inside(1, append(run, "--policy", "dev.yaml", "box", "--", "sh", "-c", c.script+" || exit 1")...)
			if !strings.Contains(said, "denied ("+at) {
				t.Errorf("nothing was denied: %s", said)
			}
			s.untouched(t)

			said = l.inside(0, append(run, "--policy", "dev", "box", "--", "sh", "-c", c.script)...)
			if !strings.Contains(said, payload) {
				t.Errorf("no package came: %s", said)
			}
			if receipt := l.inside(0, "receipt", "show", "--cell", "box", "--format", "json"); !strings.Contains(receipt, `"`+at+`=127.0.0.1"`) {
				t.Errorf("the receipt does not list the grant of %s: %s", at, receipt)
			}

			// As the policy of a cell it has the same pins, which the signed log keeps. Each
			// cell is a new one: the others have the package already.
			l.inside(0, "init", "kept", "--from", "work", "--policy", "dev")
			l.inside(0, "recover")
			said = l.inside(0, append(run, "kept", "--", "sh", "-c", c.script)...)
			if !strings.Contains(said, payload) {
				t.Errorf("no package came under the cell's policy: %s", said)
			}
			if receipt := l.inside(0, "receipt", "show", "--cell", "kept", "--format", "json"); !strings.Contains(receipt, `"`+at+`=127.0.0.1"`) {
				t.Errorf("the receipt does not list the grant of %s: %s", at, receipt)
			}
			l.inside(0, "init", "file", "--from", "work", "--policy", "dev")
			l.inside(0, "policy", "apply", "file", "dev.yaml") // a file takes them away
			if said = l.inside(1, append(run, "file", "--", "sh", "-c", c.script+" || exit 1")...); !strings.Contains(said, "denied ("+at) {
				t.Errorf("nothing was denied under a file: %s", said)
			}

			// The preset allows reading.
			put := "import urllib.request as r; r.urlopen(r.Request('https://" + at + "/x', method='PUT', data=b'x'))"
			said = l.inside(1, append(run, "--policy", "dev", "box", "--", "/usr/bin/python3", "-c", put)...)
			if !strings.Contains(said, "403") {
				t.Errorf("writing was not denied: %s", said)
			}
		})
	}
}

// inside runs the program where the names of the file hosts are known, and returns
// what it said.
func (l *lab) inside(code int, args ...string) string {
	l.Helper()
	direct := l.command(args...)
	cmd := exec.Command("/usr/bin/unshare", append([]string{
		"--mount", "sh", "-c", `mount --bind hosts /etc/hosts && exec "$@"`, "sh",
	}, direct.Args...)...)
	cmd.Dir, cmd.Env = direct.Dir, direct.Env
	out, errs, _ := finish(l.T, cmd)
	if got := cmd.ProcessState.ExitCode(); got != code {
		l.Fatalf("%q: exit %d, want %d\n%s%s", args, got, code, out, errs)
	}
	return out + errs
}

// forkcellPath returns where the program under test is.
func forkcellPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("forkcell")
	must(t, err)
	return path
}
