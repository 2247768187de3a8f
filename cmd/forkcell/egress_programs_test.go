package main

import "testing"

// sharedPython opens a socket, lets another program hold it too, and connects.
const sharedPython = `import socket, subprocess, sys
s = socket.socket()
s.settimeout(5)
other = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[s.fileno()])
other.stdout.read(1)  # it runs
try:
    s.connect(("api.example.com", 443))
    s.sendall(b"x")
    print("connected" if s.recv(1) else "refused: closed")
except OSError as e:
    print("refused:", e)
other.stdin.close()
`

// handOnPython executes another program while its connection is being made.
const handOnPython = `
import os, socket
s = socket.socket()
s.setblocking(False)
s.set_inheritable(True)
to = (socket.gethostbyname("api.example.com"), 443)
s.connect_ex(to)
os.execv("/usr/bin/bash", ["bash", "-c", "sleep 0.1; echo >&%d; read -r line <&%d" % (s.fileno(), s.fileno())])
`

// TestEgressPrograms checks a rule that names a program. It allows that program
// where the cell cannot have made it, and no other program of that name.
func TestEgressPrograms(t *testing.T) {
	t.Parallel()
	get := " -sS --fail https://api.example.com/data"
	for _, p := range []struct {
		name, binaries, script string
		reason                 string // "": it passes
	}{
		{"itself", "/usr/bin/curl", "curl" + get, ""},
		{"by a link of the system", "/usr/bin/python3", "/usr/bin/python3 fetch.py https://api.example.com/data", ""},
		{"by a link of the workspace", "/usr/bin/curl", "ln -s /usr/bin/curl fetch && ./fetch" + get, ""},
		{"copy", "/usr/bin/curl", "cp /usr/bin/curl copy && ./copy" + get, "endpoint: "},
		{"copy of the same name", "/usr/bin/curl", "mkdir -p ~/usr/bin && cp /usr/bin/curl ~/usr/bin/curl && ~/usr/bin/curl" + get, "endpoint: "},
		{"copy that a rule names", "/home/sandbox/curl", "cp /usr/bin/curl ~/curl && ~/curl" + get, "only path: /** matches"},
		{"copy that a pattern names", "/home/**", "cp /usr/bin/curl ~/curl && ~/curl" + get, "only path: /** matches"},
		{"copy in /tmp", "/tmp/*", "cp /usr/bin/curl /tmp/curl && /tmp/curl" + get, "only path: /** matches"},
		{"copy for everybody", "/**", "cp /usr/bin/curl copy && ./copy" + get, ""},
		{"removed copy", "/usr/bin/curl", "cp /usr/bin/curl copy && (rm copy; exec /proc/self/fd/9" + get + ") 9<copy", "endpoint: "},
		{"script of its name", "/usr/bin/curl", "printf '#!/usr/bin/python3\\n'>curl && cat fetch.py>>curl && chmod +x curl && ./curl https://api.example.com/data", "endpoint: "},
		{"name in argv", "/usr/bin/curl", "bash -c 'exec -a /usr/bin/curl /usr/bin/python3 fetch.py https://api.example.com/data'", "endpoint: "},
		{"name of the process", "/usr/bin/curl", "bash -c 'printf curl >/proc/self/comm; exec 3<>/dev/tcp/api.example.com/443; echo >&3; read -r line <&3'", "endpoint: "},
		{"shared with another", "/usr/bin/python3 /usr/bin/bash", "/usr/bin/python3 shared.py bash -c 'echo; cat >/dev/null'", "shared by different programs"},
		{"shared with one that may not", "/usr/bin/python3", "/usr/bin/python3 shared.py bash -c 'echo; cat >/dev/null'", "shared by different programs"},
		{"handed on by exec", "/usr/bin/curl", "bash -c 'exec 3<>/dev/tcp/api.example.com/443 && exec /usr/bin/python3 -c \"import os; os.read(3, 1)\"'", "endpoint: "},
		{"handed on by exec to one that may", "/usr/bin/python3", "bash -c 'exec 3<>/dev/tcp/api.example.com/443 && exec /usr/bin/python3 -c \"import os; os.read(3, 1)\"'", "not the binary"},
		{"handed on by exec without waiting", "/usr/bin/bash", "/usr/bin/python3 handon.py", "not the binary"},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			need(t, "/usr/bin/curl", "/usr/bin/python3", "/usr/bin/bash")
			l := newLab(t)
			l.write("fetch.py", fetchPython)
			l.write("shared.py", sharedPython)
			l.write("handon.py", handOnPython)
			s := l.site("api.example.com", says(payload))
			o := l.run(rule("host: api.example.com, port: 443, protocol: rest, access: full", p.binaries), p.script)
			if p.reason == "" {
				o.says(0, payload)
				return
			}
			o.denied(networkActivity, p.reason)
			s.untouched(t)
		})
	}
}
