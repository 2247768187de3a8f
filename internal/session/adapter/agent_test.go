package adapter

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBuiltinAdapters(t *testing.T) {
	t.Parallel()
	all, err := NewCatalogue(filepath.Join(t.TempDir(), "none")).All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Adapter.Name)
		if e.Adapter.Name != "generic" && (len(e.Adapter.Program.Names) == 0 || e.Adapter.Tested.To == "" || e.Adapter.NativeSandbox.State == "") {
			t.Errorf("%s: program, tested or native_sandbox is missing", e.Adapter.Name)
		}
		for _, c := range e.Adapter.Credentials {
			for _, ep := range c.Endpoints {
				if !slices.Contains(append(e.Adapter.Policy.Hosts(), c.Policy.Hosts()...), ep.Host) {
					t.Errorf("%s: the credential %s is for %s, which no policy allows", e.Adapter.Name, c.Key, ep.Host)
				}
			}
		}
	}
	if want := []string{"claude", "codex", "copilot", "gemini", "generic", "opencode"}; !slices.Equal(names, want) {
		t.Errorf("adapters %v, want %v", names, want)
	}
}

func TestStrictDocuments(t *testing.T) {
	t.Parallel()
	const head = "version: 1\nname: x\n"
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty"},
		{"name: x\n", "version must be the number 1"},
		{head + "progam: {}\n", "line 3: unknown key progam"},
		{head + "program: { names: [a/b] }\n", "not the name of a program"},
		{head + "name: y\n", "name"},
		{"version: 1\nname: ../x\n", "not a name"},
		{head + "notes: &a [b]\n", "anchors and aliases"},
		{head + "---\nversion: 1\n", "more than one document"},
		{head + "files: [{ path: ../x, content: a }]\n", "not a path below a directory"},
		{head + "files: [{ path: /etc/x, content: a }]\n", "not a path below a directory"},
		{head + "files: [{ path: x, content: \"${who}\" }]\n", "unknown mark ${who}"},
		{head + "files: [{ path: x, content: \"${turn\" }]\n", "unknown mark"},
		{head + "files: [{ path: x, credential: k, content: a }]\n", "no credential has the key k"},
		{head + "refused: [{ flags: [--x] }]\n", "needs why"},
		{head + "refused: [{ flags: [x], why: y }]\n", "x is not a flag"},
		{head + "policy: { network_policies: { a: {} } }\n", "endpoints"},
		{head + "policy: { credentials: { a: { endpoints: [{ host: a.b, port: 443 }], expose_as: A, replace_in_query: [k] } } }\n", "credentials are a part of the adapter"},
		{head + "credentials: [{ key: k, how: copy, variable: K }]\n", "how is placeholder or header"},
		{head + "credentials: [{ key: k, how: placeholder, variable: K }]\n", "needs endpoints"},
		{head + "credentials: [{ key: k, how: placeholder, variable: K, endpoints: [{ host: a.b, port: 443 }] }]\n", "needs headers or query"},
		{head + "credentials: [{ key: k, how: placeholder, variable: K, providers: [{ key: a }] }]\n", "providers are those of a login"},
		{head + "credentials: [{ key: k, how: placeholder, login: { file: x }, providers: [{ key: a, login: { tokens: [a.b] } }] }]\n", "needs endpoints"},
		{head + "credentials: [{ key: k, how: placeholder, login: { file: x }, providers: [{ key: a, endpoints: [{ host: a.b, port: 443 }], headers: [A] }] }]\n", "a login with tokens"},
		{head + "turns: { by: magic }\n", "by is hook or quiet"},
	} {
		if _, err := Parse("a.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestAddShownDocument(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "agents")
	c := NewCatalogue(dir)
	shipped, err := c.Find("claude")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(shipped.Text), "title: Claude Code", "title: My Claude", 1)
	added, err := c.Add("stdin", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.Find("claude")
	if err != nil {
		t.Fatal(err)
	}
	if found.Adapter.Title != "My Claude" || found.File != added.File || found.File != filepath.Join(dir, "claude.yaml") {
		t.Errorf("got %q from %q", found.Adapter.Title, found.File)
	}
	if err := os.Chmod(found.File, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Find("claude"); err == nil {
		t.Error("a document that others can write was read")
	}
	if _, err := c.Find("nobody"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	if _, err := c.Find("../claude"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}

// TestCommandArguments: the adapter's arguments come first, but for a question about the
// version.
func TestCommandArguments(t *testing.T) {
	t.Parallel()
	c, err := NewCatalogue(t.TempDir()).Find("claude")
	if err != nil {
		t.Fatal(err)
	}
	for want, user := range map[string][]string{
		"--version":                           {"--version"},
		"--permission-mode bypassPermissions": nil,
		"--permission-mode bypassPermissions --version -p task": {"--version", "-p", "task"},
	} {
		if got := strings.Join(c.Adapter.Command(Yolo, user), " "); got != want {
			t.Errorf("%q: got %q, want %q", user, got, want)
		}
	}
}

func TestRefusedArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agent string
		args  string
		bad   string
	}{
		{"claude", "-p hello", ""},
		{"claude", "--model x -p hello", ""},
		{"claude", "--permission-mode=plan", "--permission-mode=plan"},
		{"claude", "--dangerously-skip-permissions -p x", "--dangerously-skip-permissions"},
		{"claude", "--verbose update", "update"},
		{"claude", "-p update", "update"},
		{"codex", "exec hello", ""},
		{"codex", "exec --model x hello", ""},
		{"codex", "-c mcp_servers.x.command=y exec hello", "-c"},
		{"codex", "-cmcp_servers.x=y", "-cmcp_servers.x=y"},
		{"codex", "--config=profiles.a.notify=[1]", "--config=profiles.a.notify=[1]"},
		{"codex", "--config \"notify\"=[1]", "--config"},
		{"codex", "-c model=gpt exec x", ""},
		{"codex", "-anever", "-anever"},
		{"codex", "--dangerously-bypass-hook-trust", "--dangerously-bypass-hook-trust"},
		{"codex", "exec -- --yolo", ""},
		{"gemini", "-y", "-y"},
		{"copilot", "--trust-folder -p x", "--trust-folder"},
		{"opencode", "run hello", ""},
		{"opencode", "serve", "serve"},
	} {
		e, err := builtin(c.agent)
		if err != nil {
			t.Fatal(err)
		}
		err = e.Adapter.Check(strings.Fields(c.args))
		refused, ok := errors.AsType[*refusedError](err)
		if ok != (c.bad != "") || ok && refused.Argument != c.bad {
			t.Errorf("%s %s: got %v, want %q refused", c.agent, c.args, err, c.bad)
		}
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	parts, err := File{Content: `{"a": "${workspace}", "b": "${tail.claude_api_key}"}`}.Parts()
	want := []Part{{Text: `{"a": "`}, {Mark: "workspace"}, {Text: `", "b": "`}, {Mark: "tail.claude_api_key"}, {Text: `"}`}}
	if err != nil || !slices.Equal(parts, want) {
		t.Errorf("got %q, %v, want %q", parts, err, want)
	}
	if got, want := Quote(`/a "b"`), `/a \"b\"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFilesFor(t *testing.T) {
	t.Parallel()
	e, err := builtin("claude")
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{nil, {"claude_api_key"}} {
		files := e.Adapter.FilesFor(Yolo, keys)
		approved := strings.Contains(files[0].Content, "customApiKeyResponses")
		if len(files) != 2 || approved != (keys != nil) {
			t.Errorf("%v: %d files, key approved: %v", keys, len(files), approved)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Builtin() {
		text, err := embedded.ReadFile("adapters/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		if a, err := Parse("x", text); err == nil {
			_ = a.Check([]string{"-c", string(text), "--config=" + string(text)})
		}
	})
}

// TestStateDirs: the state of the agents of the program is in hidden directories, so that
// their documents need not be read for a workspace that is in none.
func TestStateDirs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := NewCatalogue(dir)
	all, err := c.StateDirs(true)
	if err != nil || !slices.Contains(all, ".local/share/opencode") {
		t.Errorf("%q, %v", all, err)
	}
	for _, name := range all {
		if !strings.HasPrefix(name, ".") {
			t.Errorf("%s is not hidden", name)
		}
	}
	if some, err := c.StateDirs(false); err != nil || len(some) != 0 {
		t.Errorf("without hidden ones: %q, %v", some, err)
	}
	own := "version: 1\nname: own\nprogram: { names: [own], version_arguments: [-v] }\npaths: { state: [own-state] }\n"
	if err := os.WriteFile(dir+"/own.yaml", []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	if some, err := c.StateDirs(false); err != nil || !slices.Equal(some, []string{"own-state"}) {
		t.Errorf("of the operator's: %q, %v", some, err)
	}
}

// TestContinue: a command that works without a terminal continues the conversation by
// itself.
func TestContinue(t *testing.T) {
	t.Parallel()
	r := Resume{Interactive: []string{"resume", "--last"}, Commands: map[string][]string{"exec": {"exec", "resume", "--last"}}}
	for _, c := range []struct{ user, want string }{
		{"", "resume --last"},
		{"exec go", "exec resume --last go"},
		{"go exec", "resume --last go exec"},
	} {
		if got := strings.Join(r.Continue(strings.Fields(c.user)), " "); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.user, got, c.want)
		}
	}
}
