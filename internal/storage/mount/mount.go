// Package mount describes what a cell sees of the host's file system, as plain
// data.
//
// It is all that workspaces and drivers share: a workspace describes where its
// directories are, a driver attaches them. It has no code that touches the system.
package mount

// Overlay is a writable union of sealed directories.
type Overlay struct {
	// Target is the absolute path in the cell.
	Target string `json:"target"`
	// Lower holds the host directories below, the topmost first. Never empty.
	Lower []string `json:"lower"`
	// Upper takes the changes and Work is the kernel's scratch directory. Both
	// are children of one host directory.
	Upper string `json:"upper"`
	Work  string `json:"work"`
	// HostLower means that the last of Lower is a directory of the host and not
	// a layer. The cell cannot read what its owner there keeps from others.
	HostLower bool `json:"host_lower,omitempty"`
	// System means that the host's ids from 0 on show as the cell's from its
	// root on, in the layers and in Upper too: it is a part of the host's
	// system with the changes of the cell.
	System bool `json:"system,omitempty"`
	// Bare shows only the directories and links directly in the host's
	// directory, and these directories are empty.
	Bare bool `json:"bare,omitempty"`
}

// Bind is one host file or directory shown in the cell.
type Bind struct {
	Target   string `json:"target"`
	Source   string `json:"source"`
	ReadOnly bool   `json:"read_only"`
	// Owned shows the caller's own files there as the cell user's, which for a
	// root caller takes an id-mapped mount. It is never set for system
	// directories: it would give root's files to the cell.
	Owned bool `json:"owned"`
	// Live means that it is a directory of the host that others use too: the
	// cell must not make anything in it that gives rights to those who execute
	// it.
	Live bool `json:"live,omitempty"`
}

// Mask hides Target behind an empty, unreadable file or directory.
type Mask struct {
	Target string `json:"target"`
	Dir    bool   `json:"dir"`
}

// Absence keeps paths of an overlay absent: the cell does not see them, and cannot
// make them.
type Absence struct {
	// Target and Upper are those of the overlay.
	Target string `json:"target"`
	Upper  string `json:"upper"`
	// Paths are relative to the overlay. At each of them Upper has a whiteout.
	Paths []string `json:"paths"`
}

// Set is everything that a workspace wants a driver to attach, in this order:
// binds, overlays, fixed paths, pins, masks.
type Set struct {
	Binds    []Bind    `json:"binds"`
	Overlays []Overlay `json:"overlays"`
	// Pins are directories that the cell cannot rename, move or remove, each
	// before its contents. A rename into or out of one is a rename between file
	// systems.
	Pins  []string `json:"pins"`
	Masks []Mask   `json:"masks"`
	// Fixed are paths that cannot be written to, renamed or removed.
	Fixed []string `json:"fixed,omitempty"`
	// Absent are paths of the overlays that stay absent.
	Absent []Absence `json:"absent,omitempty"`
}
