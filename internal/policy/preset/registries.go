package preset

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/storage/hosttool"
)

// tools runs the host's tools. The zero value is this host; tests replace its
// parts.
type tools struct {
	env    []string // as K=V
	closed hosttool.ExcludedDirs
	// Run returns what a tool prints on its two streams; false if the tool is
	// missing or fails.
	Run func(ctx context.Context, q question) (out, errs string, ok bool)
	// Getenv returns a variable of env.
	Getenv func(name string) string
	// ReadFile reads a tool's configuration.
	ReadFile func(name string) ([]byte, error)
	// Glob finds files of a tool.
	Glob func(pattern string) ([]string, error)
	// Resolve finds the addresses of a host.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// question is a command line for a tool, with additional variables.
type question struct {
	tool string
	args []string
	env  []string
}

// ask returns the output of a tool.
func (h *tools) ask(ctx context.Context, tool string, args ...string) (string, bool) {
	out, _, ok := h.Run(ctx, question{tool: tool, args: args})
	return out, ok
}

// toolTimeout bounds the time of one tool; resolving a name has less.
const (
	toolTimeout    = 10 * time.Second
	patienceOfName = 2 * time.Second
)

// maxVariable bounds the length of a variable that a tool's answer sets.
const maxVariable = 1024

// registry is a host that a tool gets packages from.
type registry struct {
	tool, host string
	port       uint16
	// clear means plain HTTP on a port other than 80; slashes, that paths have
	// encoded slashes, as npm's names of scoped packages do.
	clear, slashes bool
	// used means that a tool is set to use it, by which the operator grants its addresses.
	used bool
	// addrs are the addresses of the host, resolved here.
	addrs []netip.Addr
}

// foundRegistries has the registries that the tools reported.
type foundRegistries struct {
	registries []registry
	// vars make the tools in the cell, which does not have their configuration,
	// use the same places.
	vars [][2]string
}

// registries runs the host's tools to find out where they get packages from, with
// system also where the system's package manager does. A tool that is missing, or does
// not answer in time, has none.
func (h *tools) registries(ctx context.Context, system bool) foundRegistries {
	asked := h.withDefaults()
	asks := []func(context.Context) answer{asked.golang, asked.npm, asked.pip, asked.cargo}
	if system {
		asks = append(asks, asked.apt)
	}
	answers := make([]answer, len(asks))
	var wait sync.WaitGroup
	for i, ask := range asks {
		wait.Go(func() { answers[i] = ask(ctx) })
	}
	wait.Wait()
	out := put(answers)
	for i := range out.registries {
		if r := &out.registries[i]; r.used {
			wait.Go(func() { r.addrs = asked.addresses(ctx, r.host) })
		}
	}
	wait.Wait()
	out.registries = slices.DeleteFunc(out.registries, func(r registry) bool { return !r.valid() })
	slices.SortFunc(out.vars, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	return out
}

// put puts the answers of the tools together.
func put(answers []answer) (out foundRegistries) {
	for _, a := range answers {
		out.vars = append(out.vars, a.vars...)
		for i, place := range slices.Concat(a.urls, a.more) {
			r, ok := parse(a.tool, place)
			r.used = i < len(a.urls)
			at := slices.IndexFunc(out.registries, func(o registry) bool { return o.host == r.host && o.port == r.port })
			switch {
			case !ok:
			case at < 0:
				out.registries = append(out.registries, r)
			default: // one place for several tools
				out.registries[at].slashes = out.registries[at].slashes || r.slashes
			}
		}
	}
	return out
}

// answer is the report of one tool.
type answer struct {
	tool string
	urls []string
	// more are places that the tool may use as well, and is not set to.
	more []string
	vars [][2]string
}

func (h *tools) golang(ctx context.Context) answer {
	a := answer{tool: "go"}
	text, ok := h.ask(ctx, "go", "env", "GOPROXY", "GOSUMDB")
	if !ok {
		return a
	}
	proxy, sums, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
	for place := range strings.FieldsFuncSeq(proxy, func(c rune) bool { return c == ',' || c == '|' }) {
		if place != "direct" && place != "off" {
			a.urls = append(a.urls, place)
		}
	}
	a.set("GOPROXY", proxy)
	// The name of a checksum database is its host, unless a URL is given.
	switch fields := strings.Fields(sums); {
	case len(fields) == 0 || fields[0] == "off":
	case len(fields) > 1:
		a.urls = append(a.urls, fields[1])
	default:
		name, _, _ := strings.Cut(fields[0], "+")
		a.urls = append(a.urls, "https://"+name)
	}
	a.set("GOSUMDB", sums)
	return a
}

func (h *tools) npm(ctx context.Context) answer {
	a := answer{tool: "npm"}
	if text, ok := h.ask(ctx, "npm", "config", "get", "registry"); ok {
		text = strings.TrimSpace(text)
		a.urls = []string{text}
		a.set("npm_config_registry", text)
	}
	return a
}

func (h *tools) pip(ctx context.Context) answer {
	a := answer{tool: "pip"}
	index := h.Getenv("PIP_INDEX_URL")
	text, ok := h.ask(ctx, "pip3", "config", "list")
	if !ok {
		text, ok = h.ask(ctx, "pip", "config", "list")
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `'"`)
		switch {
		case strings.HasSuffix(key, ".extra-index-url"):
			// The text of several is on one line, with \n between them.
			extra := strings.Fields(strings.ReplaceAll(value, `\n`, " "))
			a.urls = append(a.urls, extra...)
			a.set("PIP_EXTRA_INDEX_URL", strings.Join(extra, " "))
		case strings.HasSuffix(key, ".index-url") && index == "":
			index = value
		}
	}
	switch {
	case index != "":
		a.urls = append(a.urls, index)
		a.set("PIP_INDEX_URL", index)
	case ok:
		a.urls = append(a.urls, h.pipDefaults(ctx)...)
	}
	return a
}

// pipDefaults runs pip's own code to find out which index it uses without
// configuration, and where that index has its files: no command of pip prints
// these.
func (h *tools) pipDefaults(ctx context.Context) []string {
	const code = `from pip._internal.models.index import PyPI; print(PyPI.simple_url, "https://" + PyPI.file_storage_domain)`
	for _, python := range []string{"python3", "python"} {
		if text, ok := h.ask(ctx, python, "-c", code); ok {
			return strings.Fields(text)
		}
	}
	return nil
}

// set records a variable, unless it has a password or cannot be written on a line
// of a file.
func (a *answer) set(name, value string) {
	for place := range strings.FieldsFuncSeq(value, func(c rune) bool { return strings.ContainsRune(",| ", c) }) {
		if u, err := url.Parse(place); err != nil || u.User != nil {
			return
		}
	}
	if value != "" && len(value) <= maxVariable && strings.IndexFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) < 0 {
		a.vars = append(a.vars, [2]string{name, value})
	}
}

func parse(tool, place string) (registry, bool) {
	u, err := url.Parse(place)
	if err != nil || u.Hostname() == "" {
		return registry{}, false
	}
	r := registry{tool: tool, host: strings.ToLower(u.Hostname()), port: 443, slashes: tool == "npm"}
	if u.Scheme == "http" {
		r.port = 80
	}
	if u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return registry{}, false
		}
		r.port = uint16(n)
	}
	r.clear = u.Scheme == "http" && r.port != 80
	plain := strings.Trim(r.host, "abcdefghijklmnopqrstuvwxyz0123456789.-:") == ""
	return r, plain && (u.Scheme == "http" || u.Scheme == "https")
}

// addresses resolves a host, once. By using a host with these tools the operator
// grants it, and the program pins it to these addresses for one run.
func (h *tools) addresses(ctx context.Context, host string) []netip.Addr {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // a literal address in a policy needs no grant
	}
	ctx, cancel := context.WithTimeout(ctx, patienceOfName)
	defer cancel()
	addrs, err := h.Resolve(ctx, host)
	if err != nil {
		return nil
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

func (h *tools) withDefaults() *tools {
	out := *h
	if out.Run == nil {
		out.Run = out.output
	}
	if out.Getenv == nil {
		out.Getenv = out.variable
	}
	if out.ReadFile == nil {
		out.ReadFile = os.ReadFile
	}
	if out.Glob == nil {
		out.Glob = filepath.Glob
	}
	if out.Resolve == nil {
		out.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	return &out
}

// variable returns the value of a variable. The last one counts.
func (h *tools) variable(name string) string {
	for _, kv := range slices.Backward(h.env) {
		if value, found := strings.CutPrefix(kv, name+"="); found {
			return value
		}
	}
	return ""
}

// output runs a tool of the host, which no cell can have written. It runs in the root directory: in a project's
// directory, the project's files could change what is allowed.
func (h *tools) output(ctx context.Context, q question) (out, errs string, ok bool) {
	programs := hosttool.InEnv(h.env, h.closed)
	path, err := programs.Look(q.tool)
	if err != nil {
		return "", "", false
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, q.args...)
	cmd.Dir = "/"
	cmd.Env = append(programs.Env(h.env), "GOTOOLCHAIN=local", "GOWORK=off", "NO_UPDATE_NOTIFIER=1", "PIP_DISABLE_PIP_VERSION_CHECK=1")
	cmd.Env = append(cmd.Env, q.env...)
	cmd.WaitDelay = time.Second
	var said, complained bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complained
	err = cmd.Run()
	return said.String(), complained.String(), err == nil
}
