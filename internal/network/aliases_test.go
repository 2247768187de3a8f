package network

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// links is the origin of a cell that has only links.
type links struct {
	driver.Origin
	to map[string]string
	// err is the answer for a link that is not there.
	err error
}

func (l *links) Resolve(name string) (string, error) {
	if to, ok := l.to[name]; ok {
		return to, nil
	}
	return "", l.err
}

// TestAliases looks for an executable that rules list by a link, while the cell
// exists, when it has ended, and when it could have changed the link.
func TestAliases(t *testing.T) {
	rules := func(binary string) *policy.Policy {
		p, err := policy.Parse("p.yaml", []byte("version: 1\nnetwork_policies: {a: {endpoints: [{host: a.example, port: 443}], binaries: [{path: "+binary+"}]}}\n"), policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	python, node := rules("/usr/bin/python3"), rules("/usr/bin/node")
	o := &links{to: map[string]string{"/usr/bin/python3": "/usr/bin/python3.11", "/usr/bin/node": "/opt/node"}, err: fs.ErrNotExist}
	a := newAliases(o, python)
	check := func(when, binary string, p *policy.Policy, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, a.of(binary, p)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	check("other program", "/usr/bin/perl", python)
	o.to = nil // the cell has ended
	check("ended before its first connection", "/usr/bin/python3.11", python, "/usr/bin/python3")
	check("ended, other program", "/usr/bin/perl", python)
	check("ended, never seen", "/opt/node", node)
	o.err = errors.New("the cell may change the link")
	check("changed", "/usr/bin/python3.11", python)
	o.err = fs.ErrNotExist
	check("changed, then removed", "/usr/bin/python3.11", python)
}
