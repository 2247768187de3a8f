package api

import "time"

// FileInfo describes a file of a cell.
type FileInfo struct {
	Path   string    `json:"path"`
	Type   string    `json:"type" enum:"file,dir,symlink,other"`
	Size   int64     `json:"size"`
	Mode   string    `json:"mode" doc:"Permission bits, in octal." example:"0644"`
	MTime  time.Time `json:"mtime"`
	Target *string   `json:"target,omitempty" doc:"Where a symbolic link leads."`
}

// FileList is a list of files.
type FileList struct {
	Entries []FileInfo `json:"entries"`
}

// FileEvent is a change in a watched directory. Paths are relative to it.
type FileEvent struct {
	Event string `json:"event" enum:"started,created,modified,removed,renamed,overflow"`
	Path  string `json:"path,omitempty"`
	From  string `json:"from,omitempty" doc:"The old path of what was renamed."`
}

// FileBody is the body of POST /v1/cells/{cell}/files/{stat,mkdir}.
type FileBody struct {
	Path string `json:"path" doc:"Relative to the workspace, or absolute in the cell."`
}

// ListFilesBody is the body of POST /v1/cells/{cell}/files/list.
type ListFilesBody struct {
	Path  string `json:"path,omitempty" doc:"Relative to the workspace, or absolute in the cell."`
	Depth int    `json:"depth,omitempty" doc:"How many levels; without it, one." minimum:"0" maximum:"100"`
}

// MoveFileBody is the body of POST /v1/cells/{cell}/files/move.
type MoveFileBody struct {
	From string `json:"from" doc:"Relative to the workspace, or absolute in the cell."`
	To   string `json:"to" doc:"The new path. A file there is replaced."`
}

// WatchBody is the body of POST /v1/cells/{cell}/files/watch.
type WatchBody struct {
	Path      string `json:"path,omitempty" doc:"A directory, relative to the workspace, or absolute in the cell."`
	Recursive bool   `json:"recursive,omitempty" doc:"Also what is below it."`
}
