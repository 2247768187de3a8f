package native

import "slices"

// without lists controls that are left off. It exists for the tests of this
// package, which show of every control what it stops by taking it away: nothing
// outside the package can fill Options.without, and the init takes its plan from
// its parent alone.
type without []string

func (w without) has(control string) bool { return slices.Contains(w, control) }

// The controls that can be left off.
const (
	ctlCapabilities = "capabilities"
	ctlCgroupNS     = "cgroup namespace"
	ctlDeadSockets  = "dead sockets"
	ctlDescriptors  = "descriptors"
	ctlDetached     = "detached host root"
	ctlEnvironment  = "environment"
	ctlHiddenInit   = "hidden init"
	ctlIDs          = "ids"
	ctlIPCNS        = "ipc namespace"
	ctlKeyring      = "keyring"
	ctlInRoot       = "lookups in the root"
	ctlLandlock     = "landlock"
	ctlLiveCalls    = "live directory calls"
	ctlMasks        = "masks"
	ctlNetNS        = "net namespace"
	ctlNoNewPrivs   = "no_new_privs"
	ctlNoSUID       = "nosuid"
	ctlOwnEtc       = "own etc"
	ctlPIDNS        = "pid namespace"
	ctlPlain        = "plain process"
	ctlProcMasks    = "proc masks"
	ctlPublicView   = "public view"
	ctlReadOnly     = "read-only mounts"
	ctlReadOnlyProc = "read-only proc"
	ctlSeccomp      = "seccomp"
	ctlSignals      = "signal state"
	ctlUserNS       = "user namespace"
	ctlUserNSLimit  = "user namespace limit"
	ctlUTSNS        = "uts namespace"
	ctlWorkdir      = "workdir without magic links"
)
