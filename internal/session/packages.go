package session

import (
	"os"

	"github.com/forkcell/forkcell/internal/api"
)

// noPackages returns why a session in the mode build cannot install packages of the
// system; "" if it can.
func (q *Facts) noPackages(w Request) (why string, err error) {
	switch o := w.Options; {
	case o.AsRoot:
		return "", api.Usagef("leave it out", "--as-root has no meaning with --mode build: the agent is not root, the package managers that it calls are")
	case os.Geteuid() != 0:
		return "only root can show a system that packages can be installed in", nil
	case w.Bounds != nil && !w.Bounds.Packages:
		return "only the operator may", nil
	case o.Root != "" && o.Root != hostOverlay:
		return "the session has another root than " + hostOverlay, nil
	case q.Extra != nil && q.Extra.Filesystem.Given:
		return "the policy lists the files that the session sees", nil
	}
	return "", nil
}

// hostOverlay is the root in which packages can be installed.
const hostOverlay = "host-overlay"

// planPackages decides whether the session can install packages of the system.
func (q *Facts) planPackages(w Request) error {
	if q.Mode != Build {
		return nil
	}
	why, err := q.noPackages(w)
	q.Packages, q.NoPackages = why == "", why
	return err
}

// packagesText says what a session can install; "" in modes that are not about it.
func (q *Facts) packagesText() string {
	switch {
	case q.Packages:
		return "apt-get, dpkg, dnf and apk run as root in the cell, each an event"
	case q.NoPackages != "":
		return "none: " + q.NoPackages
	}
	return ""
}

// withPackages changes the request that starts a session whose package managers run as
// root.
func withPackages(q api.StartRequest) api.StartRequest {
	q.Root, q.Packages = hostOverlay, true
	return q
}

const noPackagesHere = "packages of the system cannot be installed: the cell was not made with --backend overlay"
