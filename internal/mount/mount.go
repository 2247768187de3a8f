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
}

// Mask hides what is at Target behind an empty, unreadable file or directory.
type Mask struct {
	Target string `json:"target"`
	Dir    bool   `json:"dir"`
}

// Set is everything that one workspace asks a driver to attach, in this order:
// binds, overlays, masks.
type Set struct {
	Binds    []Bind    `json:"binds"`
	Overlays []Overlay `json:"overlays"`
	Masks    []Mask    `json:"masks"`
}
