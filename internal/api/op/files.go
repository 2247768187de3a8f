package op

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
)

const tagFiles = "files"

// Operations on the files of cells.
var (
	ReadFile = Verb{
		ID: "readFile", Method: "GET", Path: "/v1/cells/{cell}/files", Tag: tagFiles,
		Summary: "Read a file", Needs: []Scope{ScopeRead}, Kind: KindDownload, Also: []int{noRange, tooLarge},
	}
	WriteFile = Verb{
		ID: "writeFile", Method: "PUT", Path: "/v1/cells/{cell}/files", Tag: tagFiles,
		Summary: "Replace a file of a live cell", Needs: []Scope{ScopeRun}, Effect: Destroys, Idempotent: true, Kind: KindUpload,
	}
	RemoveFile = Verb{
		ID: "removeFile", Method: "DELETE", Path: "/v1/cells/{cell}/files", Tag: tagFiles,
		Summary: "Remove a file of a live cell", Needs: []Scope{ScopeRun}, Effect: Destroys, Idempotent: true, Status: noContent,
	}
	CopyFiles = Verb{
		ID: "copyFiles", Method: "POST", Path: "/v1/cells/{cell}/files/copy", Tag: tagFiles,
		Summary: "Copy a file or a directory into a live cell", Needs: []Scope{ScopeRun}, Effect: Destroys, Kind: KindUpload,
	}
	ListFiles = Op[api.ListFilesRequest, api.FileList]{
		Verb: Verb{
			ID: "listFiles", Method: "POST", Path: "/v1/cells/{cell}/files/list", Tag: tagFiles,
			Summary: "List a directory", Needs: []Scope{ScopeRead},
		},
		Do: func(e Engine, ctx context.Context, in api.ListFilesRequest) (*api.FileList, error) {
			list := &api.FileList{Entries: []api.FileInfo{}}
			return list, e.ListFiles(ctx, in.Cell, in.Path, in.Depth, func(i api.FileInfo) error {
				list.Entries = append(list.Entries, i)
				return nil
			})
		},
	}
	MakeDir = Op[api.FileRequest, api.FileInfo]{
		Verb: Verb{
			ID: "makeDir", Method: "POST", Path: "/v1/cells/{cell}/files/mkdir", Tag: tagFiles,
			Summary: "Make a directory, and those above it", Needs: []Scope{ScopeRun}, Effect: Adds,
		},
		Do: func(e Engine, ctx context.Context, in api.FileRequest) (*api.FileInfo, error) {
			return e.MakeDir(ctx, in.Cell, in.Path)
		},
	}
	MoveFile = Op[api.MoveFileRequest, api.FileInfo]{
		Verb: Verb{
			ID: "moveFile", Method: "POST", Path: "/v1/cells/{cell}/files/move", Tag: tagFiles,
			Summary: "Give a file another path", Needs: []Scope{ScopeRun}, Effect: Destroys,
		},
		Do: func(e Engine, ctx context.Context, in api.MoveFileRequest) (*api.FileInfo, error) {
			return e.MoveFile(ctx, in.Cell, in.From, in.To)
		},
	}
	StatFile = Op[api.FileRequest, api.FileInfo]{
		Verb: Verb{
			ID: "statFile", Method: "POST", Path: "/v1/cells/{cell}/files/stat", Tag: tagFiles,
			Summary: "Describe a file", Needs: []Scope{ScopeRead},
		},
		Do: func(e Engine, ctx context.Context, in api.FileRequest) (*api.FileInfo, error) {
			return e.StatFile(ctx, in.Cell, in.Path)
		},
	}
	WatchFiles = Verb{
		ID: "watchFiles", Method: "POST", Path: "/v1/cells/{cell}/files/watch", Tag: tagFiles,
		Summary: "Follow the changes in a directory of a live cell", Needs: []Scope{ScopeRead}, Kind: KindEvents,
	}
)
