// Package mount says, as plain data, what a cell sees of the host's file system.
//
// It is the only thing that workspaces and drivers have in common: a workspace
// describes where its directories are, a driver attaches them. It holds no code
// that touches the system.
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
	// HostLower says that the last of Lower is a directory of the host and not a
	// layer. What its owner keeps from others there is closed to the cell.
	HostLower bool `json:"host_lower,omitempty"`
	// System says that the host's ids from 0 on show as the cell's from its root
	// on, in the layers and in Upper too: a part of the host's system, of which
	// the cell has the changes.
	System bool `json:"system,omitempty"`
	// Bare says that of the host's directory only the directories and links
	// directly in it are shown, and these directories are empty.
	Bare bool `json:"bare,omitempty"`
}

// Bind is one host file or directory shown in the cell.
type Bind struct {
	Target   string `json:"target"`
	Source   string `json:"source"`
	ReadOnly bool   `json:"read_only"`
	// Owned says that the caller's own files there must show as the cell
	// user's, which for a root caller takes an id-mapped mount. It is never set
	// for system directories: it would hand root's files to the cell.
	Owned bool `json:"owned"`
	// Live says that it is a directory of the host that others use too: the cell
	// must not make anything in it that gives rights to who executes it.
	Live bool `json:"live,omitempty"`
}

// Mask hides what is at Target behind an empty, unreadable file or directory.
type Mask struct {
	Target string `json:"target"`
	Dir    bool   `json:"dir"`
}

// Set is everything that one workspace asks a driver to attach, in this order:
// binds, overlays, fixed paths, pins, masks.
type Set struct {
	Binds    []Bind    `json:"binds"`
	Overlays []Overlay `json:"overlays"`
	// Pins are directories that nobody in the cell can rename, move or remove,
	// each before what is in it. A rename across the edge of one is a rename
	// between file systems.
	Pins  []string `json:"pins"`
	Masks []Mask   `json:"masks"`
	// Fixed are paths that cannot be written to, renamed or removed.
	Fixed []string `json:"fixed,omitempty"`
}
