package op

const tagFiles = "files"

// Operations on the files of cells.
var (
	ReadFile = Op{
		ID: "readFile", Method: "GET", Path: "/v1/cells/{cell}/files", Tag: tagFiles,
		Summary: "Read a file", Needs: []Scope{ScopeRead}, Kind: KindDownload, Also: []int{noRange, tooLarge},
	}
	WriteFile = Op{
		ID: "writeFile", Method: "PUT", Path: "/v1/cells/{cell}/files", Tag: tagFiles,
		Summary: "Replace a file of a live cell", Needs: []Scope{ScopeRun}, Effect: Destroys, Idempotent: true, Kind: KindUpload,
	}
	RemoveFile = Op{
		ID: "removeFile", Method: "DELETE", Path: "/v1/cells/{cell}/files", Tag: tagFiles,
		Summary: "Remove a file of a live cell", Needs: []Scope{ScopeRun}, Effect: Destroys, Idempotent: true, Status: noContent,
	}
	CopyFiles = Op{
		ID: "copyFiles", Method: "POST", Path: "/v1/cells/{cell}/files/copy", Tag: tagFiles,
		Summary: "Copy a file or a directory into a live cell", Needs: []Scope{ScopeRun}, Effect: Destroys, Kind: KindUpload,
	}
	ListFiles = Op{
		ID: "listFiles", Method: "POST", Path: "/v1/cells/{cell}/files/list", Tag: tagFiles,
		Summary: "List a directory", Needs: []Scope{ScopeRead},
	}
	MakeDir = Op{
		ID: "makeDir", Method: "POST", Path: "/v1/cells/{cell}/files/mkdir", Tag: tagFiles,
		Summary: "Make a directory, and those above it", Needs: []Scope{ScopeRun}, Effect: Adds,
	}
	MoveFile = Op{
		ID: "moveFile", Method: "POST", Path: "/v1/cells/{cell}/files/move", Tag: tagFiles,
		Summary: "Give a file another path", Needs: []Scope{ScopeRun}, Effect: Destroys,
	}
	StatFile = Op{
		ID: "statFile", Method: "POST", Path: "/v1/cells/{cell}/files/stat", Tag: tagFiles,
		Summary: "Describe a file", Needs: []Scope{ScopeRead},
	}
	WatchFiles = Op{
		ID: "watchFiles", Method: "POST", Path: "/v1/cells/{cell}/files/watch", Tag: tagFiles,
		Summary: "Follow the changes in a directory of a live cell", Needs: []Scope{ScopeRead}, Kind: KindEvents,
	}
)
