package driver

// Control names something that keeps the commands of a cell inside it. The tests of
// a driver claim a list of them; package drivertest shows what each one stops.
type Control string

// The controls that probes know.
const (
	ControlCapabilities Control = "capabilities"
	ControlCgroupNS     Control = "cgroup namespace"
	ControlDeadSockets  Control = "dead sockets"
	ControlDescriptors  Control = "descriptors"
	ControlDetached     Control = "detached host root"
	ControlEnvironment  Control = "environment"
	ControlHiddenInit   Control = "hidden init"
	ControlIDs          Control = "ids"
	ControlIPCNS        Control = "ipc namespace"
	ControlKeyring      Control = "keyring"
	ControlInRoot       Control = "lookups in the root"
	ControlLandlock     Control = "landlock"
	ControlLiveCalls    Control = "live directory calls"
	ControlMasks        Control = "masks"
	ControlNetNS        Control = "net namespace"
	ControlNoNewPrivs   Control = "no_new_privs"
	ControlNoSUID       Control = "nosuid"
	ControlOwnEtc       Control = "own etc"
	ControlPIDNS        Control = "pid namespace"
	ControlPlain        Control = "plain process"
	ControlProcMasks    Control = "proc masks"
	ControlPublicView   Control = "public view"
	ControlReadOnly     Control = "read-only mounts"
	ControlReadOnlyProc Control = "read-only proc"
	ControlSeccomp      Control = "seccomp"
	ControlSignals      Control = "signal state"
	ControlUserNS       Control = "user namespace"
	ControlUserNSLimit  Control = "user namespace limit"
	ControlUTSNS        Control = "uts namespace"
	ControlWorkdir      Control = "workdir without magic links"
)
