// Package control names what keeps the commands of a cell inside it.
//
// The tests of a driver claim a list of controls; package drivertest shows what each
// one stops. A first process that is built to leave controls off knows them by the
// same names. The package holds names and must import nothing.
package control

// Name names a control.
type Name string

// The controls that probes know.
const (
	Absent       Name = "absent paths"
	Capabilities Name = "capabilities"
	CgroupNS     Name = "cgroup namespace"
	DeadSockets  Name = "dead sockets"
	Descriptors  Name = "descriptors"
	Detached     Name = "detached host root"
	Environment  Name = "environment"
	Fixed        Name = "read-only paths"
	HiddenInit   Name = "hidden init"
	IDs          Name = "ids"
	IPCNS        Name = "ipc namespace"
	Keyring      Name = "keyring"
	InRoot       Name = "lookups in the root"
	Landlock     Name = "landlock"
	LiveCalls    Name = "live directory calls"
	Masks        Name = "masks"
	NetNS        Name = "net namespace"
	NoNewPrivs   Name = "no_new_privs"
	NoSUID       Name = "nosuid"
	OwnEtc       Name = "own etc"
	PIDNS        Name = "pid namespace"
	Plain        Name = "plain process"
	ProcMasks    Name = "proc masks"
	PublicView   Name = "public view"
	ReadOnly     Name = "read-only mounts"
	ReadOnlyProc Name = "read-only proc"
	Seccomp      Name = "seccomp"
	Signals      Name = "signal state"
	UserNS       Name = "user namespace"
	UserNSLimit  Name = "user namespace limit"
	UTSNS        Name = "uts namespace"
	Workdir      Name = "workdir without magic links"
)
