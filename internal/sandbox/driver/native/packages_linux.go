package native

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/packages"
)

// packageCapabilities is added to what commands hold, for a receipt.
const packageCapabilities = "; package managers: root, CHOWN DAC_OVERRIDE FOWNER SETUID SETGID, in the cell's user namespace"

// offerPackages plans how commands ask for package managers.
func (p *hostPlan) offerPackages(s *driver.Spec) error {
	if s.Packages == nil {
		return nil
	}
	if !p.ID.Root || s.AsRoot || s.Template {
		return &driver.UnenforceableError{
			Control: "package managers as the cell's root", Reason: driver.HostOverlayNeedsRoot, Remedy: driver.HostOverlayRemedy,
		}
	}
	p.Packages = true
	for _, m := range packages.FindInstalled(present) {
		p.addBind(protocol.Bind{Target: []byte(packages.Dir + "/" + m.Name), Source: []byte(s.Packages.Shim), ReadOnly: true}, false)
	}
	return nil
}

func present(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil
}

// serveAsked begins to tell of the package managers that commands ask for.
func (c *Cell) serveAsked(p *driver.Packages) {
	if p == nil {
		return
	}
	// The init serves one command at a time, so there are two reports at most: the end of
	// one, and the next.
	const pending = 2
	c.packages, c.asked = p, make(chan protocol.Report, pending)
	c.spent.Go(func() {
		for r := range c.asked {
			c.tell(r)
		}
	})
}

// hearAsked takes a report about a package manager. An init that says more than it can
// is not to be trusted.
func (c *Cell) hearAsked(r *protocol.Report) {
	select {
	case c.asked <- *r: // blocks if it is nil
	default:
		c.kill()
	}
}

// tell reports one package manager, and answers the init.
func (c *Cell) tell(r protocol.Report) {
	args := protocol.Strings(r.Args)
	if r.Kind == protocol.Ended {
		var failed error
		if r.Text != "" {
			failed = errors.New(r.Text)
		}
		var out driver.Outcome
		out.Settle(true, true, unix.WaitStatus(r.Status))
		c.packages.Ended(args, out.Code, failed)
		return
	}
	a := &protocol.Answer{ID: r.Exec}
	if err := c.packages.Asked(args); err != nil {
		a.Problem = err.Error()
	}
	_ = c.conn.Write(&protocol.Order{Answer: a}) // an init that is gone needs none
}
