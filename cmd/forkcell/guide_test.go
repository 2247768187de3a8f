package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal/terminaltest"
)

// A page of the guide is a test: each of its console blocks is typed into one
// shell at a terminal, command by command, and what the terminal shows must be
// what the page shows. In a block
//
//	$ begins a command, and > continues it;
//	... stands for any text, and on its own line for any lines;
//	chk_...a1b2 is an id, the same one wherever the page repeats it;
//	/home/ada is the home directory, which is where a page begins;
//	[s]? k is a question and the answer that is typed.
//
// With -update a command's output is replaced by the real one where they differ.

// TestGuide follows every page of the guide, and the README.
func TestGuide(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, "../../README.md") {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			followPage(t, page)
		})
	}
}

func followPage(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	registry := false
	for _, m := range regexp.MustCompile(`<!-- needs:(.*?)-->`).FindAllSubmatch(text, -1) {
		for _, what := range strings.Fields(string(m[1])) {
			registry = registry || what == "registry"
			needFor(t, what)
		}
	}
	r := newReader(t, registry)
	lines := strings.SplitAfter(string(text), "\n")
	var out strings.Builder
	for i := 0; i < len(lines); {
		out.WriteString(lines[i])
		i++
		if lines[i-1] != "```console\n" {
			continue
		}
		end := i + slices.Index(lines[i:], "```\n")
		if end < i {
			t.Fatalf("%s:%d: the block has no end", page, i)
		}
		for i < end {
			s := nextStep(lines[i:end])
			if s.command == "" {
				t.Fatalf("%s:%d: output without a command", page, i+1)
			}
			out.WriteString(r.follow(fmt.Sprintf("%s:%d", page, i+1), s))
			i += s.lines
		}
	}
	if *update && out.String() != string(text) {
		must(t, os.WriteFile(page, []byte(out.String()), 0o644))
	}
}

// needFor skips a page that needs what is not here.
func needFor(t *testing.T, what string) {
	t.Helper()
	switch what {
	case "root":
		if os.Geteuid() != 0 {
			t.Skip("the page is for root")
		}
	case "registry":
		if os.Geteuid() != 0 {
			t.Skip("an /etc/hosts of its own needs a mount namespace, and so root")
		}
		need(t, "/usr/bin/unshare")
	default:
		if !filepath.IsAbs(what) {
			t.Fatalf("the page needs %s, which is no path", what)
		}
		need(t, what)
	}
}

// step is one command of a page and what it shows.
type step struct {
	command string
	typed   string // the command as the page has it
	shown   []string
	lines   int
}

// nextStep takes the first command of a block.
func nextStep(lines []string) step {
	var s step
	for _, line := range lines {
		first := s.lines == 0
		begins := strings.HasPrefix(line, "$ ")
		goesOn := (strings.HasPrefix(line, "> ") || line == ">\n") && len(s.shown) == 0
		switch {
		case first != begins:
			return s
		case first || goesOn:
			s.command += strings.TrimPrefix(line[1:], " ")
			s.typed += line
		default:
			s.shown = append(s.shown, strings.TrimSuffix(line, "\n"))
		}
		s.lines++
	}
	return s
}

// answers returns what the page types at questions.
func (s step) answers() []string {
	var list []string
	for _, line := range s.shown {
		if _, answer, ok := strings.Cut(line, questionEnd); ok {
			list = append(list, answer)
		}
	}
	return list
}

const (
	questionEnd = "[s]? "
	endMark     = "\x01"
)

// reader follows the commands of a page in a shell.
type reader struct {
	t      *testing.T
	dir    string
	home   string
	ids    map[string]string // the page's to the real ones
	feed   *os.File          // names of files with commands, one to a line
	screen *screen
	master *os.File
	steps  int
}

// shellLoop runs commands in one shell: each sees the exit code of the one before.
const shellLoop = `code=0
umask 022
if [ "$(id -u)" = 0 ]; then sudo() { "$@"; }; fi
while IFS= read -r file <&3; do
	(exit $code)
	. "$file" 3<&-
	code=$?
	printf '\001%d\n' $code
done`

func newReader(t *testing.T, registry bool) *reader {
	t.Helper()
	need(t, "/bin/bash")
	r := &reader{t: t, dir: t.TempDir(), ids: map[string]string{}, screen: &screen{changed: make(chan struct{}, 1)}}
	r.home = filepath.Join(r.dir, "ada")
	must(t, os.Mkdir(r.home, 0o755))
	commands, feed, err := os.Pipe()
	must(t, err)
	master, slave := openTerminal(t)
	r.feed, r.master = feed, master
	cmd := exec.Command("/bin/bash", "-c", shellLoop)
	if registry {
		cmd = r.withRegistry(cmd)
	}
	cmd.Dir = r.home
	cmd.Env = append(cmd.Env,
		"PATH="+os.Getenv("PATH"), "HOME="+r.home, "TERM=dumb", "PAGER=cat", "NO_COLOR=1", "LC_ALL=C.UTF-8",
		"GIT_CONFIG_NOSYSTEM=1", "TMPDIR="+r.dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = slave, slave, slave, []*os.File{commands}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, terminaltest.Size(slave, 50, 200))
	must(t, cmd.Start())
	_, _ = slave.Close(), commands.Close()
	go func() { _, _ = io.Copy(r.screen, terminal.Output(master)) }()
	t.Cleanup(func() {
		_ = feed.Close()
		_ = cmd.Process.Kill()
		_ = master.Close() // hangs up what the page left in the background
		_ = cmd.Wait()
		stopLive(filepath.Join(r.home, ".local/share/forkcell"))
	})
	return r
}

// withRegistry lets a shell take a server of the test for Python's registry: by
// name, in a mount namespace with its own /etc/hosts.
func (r *reader) withRegistry(shell *exec.Cmd) *exec.Cmd {
	r.t.Helper()
	hosts := []string{"pypi.org", "files.pythonhosted.org"}
	ca := newTestCA(r.t)
	server := httptest.NewUnstartedServer(pythonIndexOf(r.t, "six"))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	for _, host := range hosts {
		server.TLS.Certificates = append(server.TLS.Certificates, ca.leaf(r.t, host))
	}
	// An address of loopback that only this process uses has a port 443 to itself.
	pid := os.Getpid()
	address := fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, 1+pid&127)
	listener, err := net.Listen("tcp", address+":443")
	must(r.t, err)
	must(r.t, server.Listener.Close())
	server.Listener = listener
	server.StartTLS()
	r.t.Cleanup(server.Close)
	must(r.t, os.WriteFile(filepath.Join(r.dir, "hosts"), []byte("127.0.0.1 localhost\n"+address+" "+strings.Join(hosts, " ")+"\n"), 0o644))
	must(r.t, os.WriteFile(filepath.Join(r.dir, "ca.pem"), ca.pem, 0o644))
	cmd := exec.Command("/usr/bin/unshare", append([]string{
		"--mount", "sh", "-c", `mount --bind ../hosts /etc/hosts && exec "$@"`, "sh",
	}, shell.Args...)...)
	cmd.Env = []string{"SSL_CERT_FILE=" + filepath.Join(r.dir, "ca.pem")}
	return cmd
}

// follow types one command, compares, and returns the step as it should read.
func (r *reader) follow(at string, s step) string {
	r.t.Helper()
	shown, code := r.execute(at, s)
	if code != 0 && len(s.shown) == 0 && !*update {
		r.t.Fatalf("%s: %sexits %d, and the page shows nothing of it:\n%s", at, s.typed, code, strings.Join(shown, "\n"))
	}
	if r.same(s.shown, shown) {
		return s.typed + joined(s.shown)
	}
	if !*update {
		r.t.Fatalf("%s: %sshows\n%swhere the page has\n%s", at, s.typed, joined(shown), joined(s.shown))
	}
	for i := range shown {
		shown[i] = volatile.ReplaceAllString(anyID.ReplaceAllString(shown[i], "${1}_...$3"), "...")
	}
	r.same(shown, shown)
	return s.typed + joined(shown)
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// execute runs a command to its end and returns what the terminal shows.
func (r *reader) execute(at string, s step) (shown []string, code int) {
	r.t.Helper()
	r.steps++
	file := filepath.Join(r.dir, "step"+strconv.Itoa(r.steps))
	command := pageID.ReplaceAllStringFunc(s.command, func(id string) string {
		if real, ok := r.ids[id]; ok {
			return real
		}
		return id
	})
	must(r.t, os.WriteFile(file, []byte(strings.ReplaceAll(command, "/home/ada", r.home)), 0o644))
	r.screen.clear()
	_, err := fmt.Fprintln(r.feed, file)
	must(r.t, err)
	answers, typed := s.answers(), 0
	limit := time.After(commandLimit)
	for {
		text := r.screen.text()
		if before, after, ok := strings.Cut(text, endMark); ok && strings.Contains(after, "\n") {
			code, err = strconv.Atoi(strings.TrimSpace(after))
			must(r.t, err)
			return r.plain(before), code
		}
		if typed < len(answers) && strings.Count(text, questionEnd) > typed {
			_, err := io.WriteString(r.master, answers[typed]+"\r")
			must(r.t, err)
			typed++
		}
		select {
		case <-r.screen.changed:
		case <-limit:
			r.t.Fatalf("%s: %sdoes not end:\n%s", at, s.typed, text)
		}
	}
}

var (
	lineEnd = regexp.MustCompile(`\r+\n`)
	drawn   = regexp.MustCompile(`[^\n]*\r\x1b\[K|\x1b\[[0-9;]*m`) // progress, which is drawn over, and colours
	anyID   = regexp.MustCompile(`\b(chk|run|rcpt|dec|cell|exec|op|recover)_([0-9a-z]{22})([0-9a-z]{4})\b`)
	pageID  = regexp.MustCompile(`\b(?:chk|run|rcpt|dec|cell|exec|op|recover)_\.\.\.[0-9a-z]{4}\b`)
	// volatile is what differs from reader to reader: hashes, times, durations.
	volatile = regexp.MustCompile(`\b(?:[0-9a-f]{64}|[0-9a-f]{12})\b|\b20\d\d-\d\d-\d\d[T ][0-9:.]+Z?|\b[0-9.]+ ?(?:µs|ms)\b|\bMCow\S+`)
	blanks   = regexp.MustCompile(`[ \t]+`)
)

// plain returns the lines of a screen, as a page would have them.
func (r *reader) plain(text string) []string {
	text = drawn.ReplaceAllString(lineEnd.ReplaceAllString(text, "\n"), "")
	text = strings.ReplaceAll(text, r.home, "/home/ada")
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// same compares what a page shows with what a terminal showed, and remembers the
// ids.
func (r *reader) same(page, real []string) bool {
	if len(page) == 0 {
		return len(real) == 0
	}
	if page[0] == "..." {
		for i := range len(real) + 1 {
			if r.same(page[1:], real[i:]) {
				return true
			}
		}
		return false
	}
	return len(real) > 0 && r.sameLine(page[0], real[0]) && r.same(page[1:], real[1:])
}

func (r *reader) sameLine(page, real string) bool {
	page, real = blanks.ReplaceAllString(page, " "), blanks.ReplaceAllString(real, " ")
	var (
		pattern bytes.Buffer
		ids     []string
	)
	pattern.WriteString("^")
	for {
		at := pageID.FindStringIndex(page)
		if at == nil {
			break
		}
		id := page[at[0]:at[1]]
		pattern.WriteString(anyText(page[:at[0]]))
		if real, known := r.ids[id]; known {
			pattern.WriteString("(" + real + ")")
		} else {
			pattern.WriteString("(" + id[:strings.Index(id, "_")] + "_[0-9a-z]{26})")
		}
		ids, page = append(ids, id), page[at[1]:]
	}
	pattern.WriteString(anyText(page) + "$")
	m := regexp.MustCompile(pattern.String()).FindStringSubmatch(real)
	if m == nil {
		return false
	}
	for i, id := range ids {
		r.ids[id] = m[i+1]
	}
	return true
}

// anyText is a pattern for text with dots for any text.
func anyText(page string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(page), `\.\.\.`, ".*")
}
