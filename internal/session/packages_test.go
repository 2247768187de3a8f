package session

import (
	"os"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
)

// A session installs packages in the mode build, if it can have a system for that.
func TestPackages(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can install packages in a cell")
	}
	files := policy.Default()
	files.Filesystem.Given = true
	for name, c := range map[string]struct {
		mode string
		wish Request
		own  *policy.Policy
		want string
	}{
		"the operator":      {Build, Request{}, policy.Default(), "apt-get, dpkg, dnf and apk run as root in the cell, each an event"},
		"the same root":     {Build, Request{Options: api.RunOptions{Root: "host-overlay"}}, nil, "apt-get, dpkg, dnf and apk run as root in the cell, each an event"},
		"an administrator":  {Build, Request{Bounds: &Bounds{Packages: true}}, nil, "apt-get, dpkg, dnf and apk run as root in the cell, each an event"},
		"another caller":    {Build, Request{Bounds: &Bounds{}}, nil, "none: only the operator may"},
		"another root":      {Build, Request{Options: api.RunOptions{Root: "/srv/root"}}, nil, "none: the session has another root than host-overlay"},
		"files of a policy": {Build, Request{}, files, "none: the policy lists the files that the session sees"},
		"strict":            {Strict, Request{}, nil, ""},
		"development":       {Development, Request{}, nil, ""},
	} {
		q := Facts{Mode: c.mode, Extra: c.own}
		if err := q.planPackages(c.wish); err != nil || q.packagesText() != c.want {
			t.Errorf("%s: %q, %v", name, q.packagesText(), err)
		}
	}
	q := Facts{Mode: Build}
	if err := q.planPackages(Request{Options: api.RunOptions{AsRoot: true}}); api.CodeOf(err) != api.CodeUsage {
		t.Errorf("as root: %v", err)
	}
}
