package native

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/spawn"
)

// A root caller's cell lives in this range of host ids, which no account has.
// Inside it are 0..65535; the command is 1000.
const (
	idBase    = 1_900_000_000
	idCount   = 65_536
	sandboxID = 1000
)

// plainMap is the map of a root caller's cells themselves.
func plainMap() string { return fmt.Sprintf("0 %d %d\n", idBase, idCount) }

// callerIdentity is the identity of the present process.
func callerIdentity() protocol.Identity {
	if unix.Geteuid() == 0 {
		return protocol.Identity{Root: true, UID: sandboxID, GID: sandboxID}
	}
	return protocol.Identity{UID: unix.Geteuid(), GID: unix.Getegid()}
}

// CallerIdentity is the identity of the cells that the present process makes.
func CallerIdentity() protocol.Identity { return callerIdentity() }

// HostUser is the host's number of the user of a root caller's cells.
func HostUser() int { return idBase + sandboxID }

// User implements driver.Driver.
func (*Driver) User() int { return callerIdentity().UID }

// describeIDs describes the mapping for a receipt.
func describeIDs(id protocol.Identity) string {
	if id.Super {
		return fmt.Sprintf("the command is root in the cell, with CHOWN, DAC_OVERRIDE, FOWNER, SETUID and SETGID; ids 0-%d are %d and up on the host", idCount-1, idBase)
	}
	if id.Root {
		return fmt.Sprintf("sandbox is %d; ids 0-%d are %d and up on the host; layers are id-mapped, root's files are sandbox's",
			sandboxID, idCount-1, idBase)
	}
	return fmt.Sprintf("sandbox is the caller, %d:%d; no other id is mapped", id.UID, id.GID)
}

// configureIDs sets the ids of a new process.
func configureIDs(id protocol.Identity, n *spawn.Config) {
	if id.Root {
		n.UIDMap, n.GIDMap = plainMap(), plainMap()
		n.Groups = "allow"
		// Without this the new process would be nobody in its namespace and
		// lose its capabilities at exec.
		n.Root = true
		return
	}
	n.MapOne(id.UID, id.GID)
	n.Ambient = spawn.Capabilities()
}

// permutedMap is the map of a root caller's layers, in the kernel's format: it
// swaps 0 and 1000, so that what is root's on disk is the sandbox user's inside
// and the other way round. A directory of the host has it behind a public view
// only: else it would hand root's files to the cell.
func permutedMap() string {
	return fmt.Sprintf("0 %d 1\n1 %d %d\n%d %d 1\n%d %d %d\n",
		idBase+sandboxID,
		idBase+1, sandboxID-1,
		sandboxID, idBase,
		sandboxID+1, idBase+sandboxID+1, idCount-sandboxID-1)
}

// capabilities names what the command holds, for a receipt.
func capabilities(id protocol.Identity) string {
	if id.Super {
		return "CHOWN DAC_OVERRIDE FOWNER SETUID SETGID, in the cell's user namespace"
	}
	return "none"
}
