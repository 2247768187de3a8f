package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
)

const goodPolicy = "version: 1\nlimits: { memory: 1GiB }\n"

func TestPolicyValidate(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{}
	code, stdout, stderr := call(t, f, "policy", "validate", policyFile(t, goodPolicy))
	if code != 0 || f.opened != 0 || stderr != "" || !strings.HasPrefix(stdout, "ok  ") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	bad := policyFile(t, "version: 2\nlimits: { memroy: 1GiB }\nextra: 1\n")
	code, stdout, stderr = call(t, f, "policy", "validate", bad)
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if code != 2 || stdout != "" || len(lines) != 3 {
		t.Fatalf("exit %d, %q, %q", code, stdout, stderr)
	}
	for i, at := range []string{":1:", ":2:", ":3:"} {
		if !strings.Contains(lines[i], bad+at) {
			t.Errorf("line %d has no position %s: %s", i, at, lines[i])
		}
	}
	code, stdout, stderr = call(t, f, "policy", "validate", "--json", bad)
	var doc validation
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if code != 2 || doc.Valid || len(doc.Problems) != 3 || doc.Problems[0].Line != 1 || !strings.HasPrefix(stderr, `{"error":`) {
		t.Errorf("exit %d, %+v, %q", code, doc, stderr)
	}
}

// An argument that names a file is one; everything else is a cell.
func TestPolicyRefs(t *testing.T) {
	t.Parallel()
	file := policyFile(t, goodPolicy)
	read := &api.PolicyFile{Name: api.Text(file), Text: []byte(goodPolicy), Path: api.Text(file)}
	f := &fakeEngine{}
	if code, _, stderr := call(t, f, "policy", "diff", "demo", file); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if diff := cmp.Diff([]engine.PolicyRef{{Cell: "demo"}, {File: read}}, f.got); diff != "" {
		t.Error(diff)
	}
	if call(t, f, "policy", "apply", "demo", file); !cmp.Equal(f.got, any([]any{"demo", *read, api.Texts(nil), []string(nil)})) || f.mode != Write {
		t.Errorf("apply: %v", f.got)
	}
	if err := os.Chmod(file, 0); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, f, "policy", "diff", "demo", file); os.Geteuid() != 0 && code != 2 {
		t.Errorf("a file that cannot be read: exit %d: %s", code, stderr)
	}
}

func TestPolicyDiffText(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{policies: &api.PolicyDiff{Differences: []api.PolicyDifference{
		{Path: "limits.memory", Old: "1GiB", New: "2GiB"}, {Path: "limits.pids", Old: "3"}, {Path: "limits.cpus", New: "1\x1b"},
	}}}
	_, stdout, _ := call(t, f, "policy", "diff", "a", "b")
	want := "~ limits.memory: 2GiB, was 1GiB\n- limits.pids: 3\n+ limits.cpus: 1\\x1b\n"
	if stdout != want {
		t.Errorf("%q", stdout)
	}
	if _, stdout, _ = call(t, &fakeEngine{}, "policy", "diff", "a", "b"); stdout != "no difference\n" {
		t.Errorf("%q", stdout)
	}
}

func TestPolicyExplainQuestions(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]engine.PolicyQuestion{
		"":                   {},
		"--path /etc/passwd": {Path: "/etc/passwd"},
		"--syscall mount":    {Syscall: "mount"},
		"--host h:443":       {Request: &policy.Request{Host: "h", Port: 443}},
		"--host [::1]:80 --method GET --url-path /x --binary /bin/b": {
			Request: &policy.Request{Host: "::1", Port: 80, Method: "GET", Path: "/x", Binary: "/bin/b"},
		},
		"--host h:1 --url-path /a?b=c?d --header x-http-method:PUT --header X-Http-Method:GET --header a:": {
			Request: &policy.Request{Host: "h", Port: 1, Path: "/a"}, RawQuery: "b=c?d",
			Header: map[string][]string{"X-Http-Method": {"PUT", "GET"}, "A": {""}},
		},
	} {
		f := &fakeEngine{}
		code, _, stderr := call(t, f, strings.Fields("policy explain demo "+line)...)
		if code != 0 {
			t.Errorf("%s: exit %d: %s", line, code, stderr)
			continue
		}
		if diff := cmp.Diff([]any{engine.PolicyRef{Cell: "demo"}, want}, f.got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	for _, line := range []string{
		"--path /x", "demo --path /x --syscall y", "demo --host h", "demo --host h:0", "demo --host h:x", "demo --host :1",
		"demo --host h:70000", "demo --path /x --method GET", "demo --host h:1 --header x", "demo --host h:1 --header :x", "demo --path /x --header a:b",
	} {
		f := &fakeEngine{}
		code, _, stderr := call(t, f, strings.Fields("policy explain "+line)...)
		if code != 2 || f.opened != 0 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", line, code, stderr)
		}
	}
}
