//go:build probes

package native

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/spawn"
)

// leaveOff takes namespaces off a clone, and gives the init what an ordinary
// user's lacks.
func leaveOff(n *spawn.Config, w protocol.Without) (env []string) {
	for name, flag := range map[control.Name]uint64{
		control.IPCNS: unix.CLONE_NEWIPC, control.NetNS: unix.CLONE_NEWNET, control.PIDNS: unix.CLONE_NEWPID, control.UTSNS: unix.CLONE_NEWUTS,
	} {
		if w.Has(name) {
			n.Flags &^= flag
		}
	}
	if w.Has(control.UserNS) {
		n.Flags &^= unix.CLONE_NEWUSER
	}
	if w.Has(control.Capabilities) && len(n.Ambient) > 0 {
		n.Ambient = nil
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			n.Ambient = append(n.Ambient, c)
		}
	}
	if w.Has(control.Environment) {
		return os.Environ()
	}
	return []string{}
}
