package api

// ControlRequest asks that the control files of a workspace have no effect in a live
// cell: the settings, hooks and servers of agents are hidden, those of editors and
// shells cannot be changed, the settings of git are shown without those that run
// programs. What the cell writes to such paths is set aside: it is no part of what
// accept and apply take, unless it is allowed by name.
type ControlRequest struct {
	// ShowGit shows the settings and hooks of git repositories as they are,
	// read-only.
	ShowGit bool `json:"show_git,omitempty"`
	// ShowMCP shows the files that name servers of agents as they are, read-only.
	ShowMCP bool `json:"show_mcp,omitempty"`
	// Also are patterns of further paths that are hidden.
	Also Texts `json:"also,omitempty"`
	// State are patterns of paths in which an agent keeps its own state. They are
	// not masked, and are no part of diff, accept and apply.
	State Texts `json:"state,omitempty"`
}

// ControlFiles lists the control files of a workspace that a live cell masks.
type ControlFiles struct {
	// Hidden are paths that the workspace has and the cell does not see.
	Hidden []string `json:"hidden"`
	// ReadOnly are paths that the cell sees and cannot change.
	ReadOnly []string `json:"read_only"`
	// Filtered are settings of git that the cell sees in part, read-only.
	Filtered []FilteredFile `json:"filtered"`
	// Missing are paths that the workspace does not have and the cell cannot make.
	Missing []string `json:"missing"`
	// Empty means that the cell sees the hidden paths as empty files and
	// directories, and can make the missing ones: its backend cannot hide names.
	Empty bool `json:"empty,omitempty"`
	// Instructions are files that the cell sees as they are in the last commit of
	// the source, and not as they are in its work tree.
	Instructions []string `json:"instructions,omitempty"`
	// Also and State are those of the request.
	Also  []string `json:"also,omitempty"`
	State []string `json:"state,omitempty"`
}

// FilteredFile is a file of which the cell does not see some settings.
type FilteredFile struct {
	Path string `json:"path"`
	// Removed are the names of these settings. A file that cannot be read is shown
	// as empty.
	Removed    []string `json:"removed"`
	Unreadable bool     `json:"unreadable,omitempty"`
}
