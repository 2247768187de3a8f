package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// client is a common, unmodified program, with everything that it needs to
// fetch something.
type client struct {
	name   string
	tools  []string // that must be installed
	binary string   // as a policy names it
	host   string
	server func(*testing.T) http.Handler // nil: one that says the payload
	also   string                        // of the endpoint, besides read-only access
	files  map[string]string             // of the workspace
	script string
	want   string // what it says then; "": the payload
}

const fetchJava = `import java.net.URI;
import java.net.http.*;
public class Fetch {
	public static void main(String[] args) throws Exception {
		var answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(args[0])).build(), HttpResponse.BodyHandlers.ofString());
		System.out.println(answer.version() + " " + answer.body());
		System.exit(answer.statusCode() == 200 ? 0 : 1);
	}
}
`

const fetchPython = `import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())
`

const fetchNode = `fetch(process.argv[2]).then(r => r.text().then(t => { console.log(t); process.exitCode = r.ok ? 0 : 1 }))
`

func clients(goroot string) []client {
	url := "https://api.example.com/data"
	return []client{
		{name: "curl http1", binary: "/usr/bin/curl", script: "curl -sS --fail-with-body --http1.1 " + url},
		{name: "curl http2", binary: "/usr/bin/curl", script: "curl -sS --fail-with-body --http2 -w 'HTTP/%{http_version}\\n' " + url, want: payload + "\nHTTP/2"},
		{name: "wget", binary: "/usr/bin/wget", script: "wget -q --tries=1 -O - " + url},
		{name: "python", binary: "/usr/bin/python3", files: map[string]string{"fetch.py": fetchPython}, script: "/usr/bin/python3 fetch.py " + url},
		{name: "node", binary: "/usr/bin/node", files: map[string]string{"fetch.js": fetchNode}, script: "node fetch.js " + url},
		{name: "java", binary: "/usr/bin/java", files: map[string]string{"Fetch.java": fetchJava}, script: "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC Fetch.java " + url},
		{name: "openssl", binary: "/usr/bin/openssl", script: "printf 'GET /data HTTP/1.1\\r\\nHost: api.example.com\\r\\nConnection: close\\r\\n\\r\\n' |" +
			" openssl s_client -quiet -verify_return_error -verify_hostname api.example.com -servername api.example.com -connect api.example.com:443"},
		{
			name: "git clone", tools: []string{"/usr/bin/git"}, binary: "/usr/lib/git-core/git-remote-https", host: "git.example.com", server: gitServer,
			script: "git clone -q https://git.example.com/repo.git copy && cat copy/file",
		},
		{
			name: "pip", tools: []string{"/usr/bin/pip3"}, binary: "/usr/bin/python3", host: "pypi.example.com", server: pythonIndex,
			script: "/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --retries 0 --target lib --index-url https://pypi.example.com/simple tiny &&" +
				" PYTHONPATH=lib /usr/bin/python3 -c 'import tiny; print(tiny.word)'",
		},
		{
			name: "npm", tools: []string{"/usr/bin/npm"}, binary: "/usr/bin/node", host: "npm.example.com", server: npmRegistry, also: ", allow_encoded_slash: true",
			script: "npm install --silent --no-audit --no-fund --no-update-notifier --fetch-retries=0 --registry https://npm.example.com tiny @scope/tiny &&" +
				" node -p 'require(\"tiny\") + require(\"@scope/tiny\")'",
		},
		{
			name: "go", binary: goroot + "/bin/go", host: "modules.example.com", server: moduleProxy,
			// Without -modcacherw the test could not remove what go has fetched.
			script: "GOTOOLCHAIN=local GONOSUMDB='*' GOFLAGS='-mod=mod -modcacherw' GOPROXY=https://modules.example.com " + goroot + "/bin/go mod download example.com/tiny@v1.0.0 &&" +
				" cat ~/go/pkg/mod/example.com/tiny@v1.0.0/tiny.go",
		},
		{
			name: "cargo", binary: "/usr/bin/cargo", host: "crates.example.com", server: crateRegistry,
			files: map[string]string{
				"Cargo.toml":  "[package]\nname = \"lab\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[dependencies]\ntiny = { version = \"1\", registry = \"lab\" }\n",
				"lib.rs":      "",
				"config.toml": "[registries.lab]\nindex = \"sparse+https://crates.example.com/index/\"\n[net]\nretry = 0\n",
			},
			// Before 1.68 a sparse registry had to be asked for.
			script: "RUSTC_BOOTSTRAP=1 /usr/bin/cargo -Z sparse-registry --config config.toml fetch -q && cat ~/.cargo/registry/src/*/tiny-1.0.0/src/lib.rs",
		},
	}
}

// TestEgressClients lets unmodified clients fetch something that a small policy
// allows. Then it shows that under a policy for another path, program or host
// the server does not even get a connection.
func TestEgressClients(t *testing.T) {
	t.Parallel()
	goroot := ""
	if out, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		goroot = strings.TrimSpace(string(out))
	}
	for _, c := range clients(goroot) {
		if c.host == "" {
			c.host = "api.example.com"
		}
		endpoint := "host: " + c.host + ", port: 443, protocol: rest" + c.also
		for _, v := range []struct {
			name, policy string
			class        int // of the event about the denial
			reason       string
		}{
			{"allowed", rule(endpoint+", access: read-only", c.binary), 0, ""},
			{"other path", rule(endpoint+", rules: [{allow: {method: GET, path: /elsewhere}}]", c.binary), httpActivity, "request: "},
			{"other program", rule(endpoint+", access: full", "/usr/bin/true"), networkActivity, "endpoint: "},
			{"other host", rule("host: elsewhere.example.com, port: 443, protocol: rest, access: full", c.binary), dnsActivity, c.host},
		} {
			t.Run(c.name+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				need(t, append(c.tools, c.binary)...)
				l := newLab(t)
				handler := says(payload)
				if c.server != nil {
					handler = c.server(t)
				}
				s := l.site(c.host, handler)
				if c.name == "go" && !strings.HasPrefix(goroot, "/usr/") {
					l.flags = append(l.flags, "--ro", goroot)
				}
				for name, text := range c.files {
					l.write(name, text)
				}
				o := l.run(v.policy, c.script)
				if v.class == 0 {
					o.says(0, cmp.Or(c.want, payload))
					return
				}
				if strings.Contains(o.said, payload) {
					t.Errorf("got through: %s", o.said)
				}
				o.denied(v.class, v.reason)
				s.untouched(t)
			})
		}
	}
}

// TestEgressPush shows that reading a repository does not include writing to it.
func TestEgressPush(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/git")
	l := newLab(t)
	s := l.site("git.example.com", gitServer(t))
	endpoint := "host: git.example.com, port: 443, protocol: rest, access: "
	git := "/usr/lib/git-core/git-remote-https"
	l.run(rule(endpoint+"read-only", git), "git clone -q https://git.example.com/repo.git copy").says(0, "")
	_, before := s.traffic(t)
	push := "cd copy && git -c user.name=lab -c user.email=lab@example.com commit -q --allow-empty -m two && git push -q origin main"
	o := l.run(rule(endpoint+"read-only", git), push)
	o.denied(httpActivity, "request: ")
	if _, seen := s.traffic(t); o.code == 0 || strings.Contains(fmt.Sprint(seen[len(before):]), "receive-pack") {
		t.Errorf("exit %d, the server saw %q\n%s", o.code, seen[len(before):], o.said)
	}
	l.run(rule(endpoint+"read-write", git), "cd copy && git push -q origin main").says(0, "")
}

// TestEgressStream checks that a stream of events is passed on at once: the
// server sends the second event only when the cell has acknowledged the first.
func TestEgressStream(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/curl")
	for _, version := range []string{"--http1.1", "--http2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			seen := make(chan struct{})
			mux := http.NewServeMux()
			mux.HandleFunc("/ack", func(http.ResponseWriter, *http.Request) { close(seen) })
			mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: one\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-seen:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "data: "+payload+"\n\n")
			})
			l.site("api.example.com", mux)
			l.run(rule("host: api.example.com, port: 443, protocol: rest, access: read-only", "/usr/bin/curl"),
				"curl -sSN "+version+" https://api.example.com/events | { read -r first; echo \"$first\"; curl -sS https://api.example.com/ack; cat; }").
				says(0, payload)
		})
	}
}

// TestEgressTCP uses a protocol in which the server sends first.
func TestEgressTCP(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/bash")
	talk := `bash -c 'exec 3<>/dev/tcp/mail.example.com/2525 && read -r line <&3 && echo "$line" && echo "HELO cell" >&3 && read -r line <&3 && echo "$line"'`
	for _, v := range []struct{ name, endpoint, binary, reason string }{
		{"allowed", "host: mail.example.com, port: 2525", "/usr/bin/bash", ""},
		{"other port", "host: mail.example.com, port: 25", "/usr/bin/bash", "endpoint: "},
		{"other program", "host: mail.example.com, port: 2525", "/usr/bin/curl", "endpoint: "},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			s := l.raw("mail.example.com", 2525, "tcp4", "127.0.0.1:0", greetAndEcho)
			o := l.run(rule(v.endpoint, v.binary), talk)
			if v.reason == "" {
				o.says(0, "220 "+payload+"\nHELO cell")
				return
			}
			o.denied(networkActivity, v.reason)
			s.untouched(t)
		})
	}
}
