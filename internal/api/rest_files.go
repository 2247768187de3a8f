package api

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// FileInfo describes a file of a cell. A path or target need not be UTF-8: its JSON
// then has the bytes in base64 beside a text with replacement characters.
type FileInfo struct {
	Path         string    `json:"path"`
	PathBase64   []byte    `json:"path_base64,omitempty" doc:"The bytes of the path, if it is not UTF-8."`
	Type         string    `json:"type" enum:"file,dir,symlink,other"`
	Size         int64     `json:"size"`
	Mode         string    `json:"mode" doc:"Permission bits, in octal." example:"0644"`
	MTime        time.Time `json:"mtime"`
	Target       *string   `json:"target,omitempty" doc:"Where a symbolic link leads."`
	TargetBase64 []byte    `json:"target_base64,omitempty" doc:"The bytes of the target, if it is not UTF-8."`
}

// MarshalJSON implements json.Marshaler.
func (i FileInfo) MarshalJSON() ([]byte, error) {
	type plain FileInfo
	p := plain(i)
	p.Path, p.PathBase64 = textAndBytes(i.Path)
	if i.Target != nil {
		target, raw := textAndBytes(*i.Target)
		p.Target, p.TargetBase64 = &target, raw
	}
	return json.Marshal(p)
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *FileInfo) UnmarshalJSON(data []byte) error {
	type plain FileInfo
	if err := json.Unmarshal(data, (*plain)(i)); err != nil {
		return err
	}
	i.Path, i.PathBase64 = bytesOrText(i.Path, i.PathBase64), nil
	if len(i.TargetBase64) > 0 {
		target := string(i.TargetBase64)
		i.Target, i.TargetBase64 = &target, nil
	}
	return nil
}

// textAndBytes returns a name as UTF-8, and its bytes if it is not.
func textAndBytes(name string) (string, []byte) {
	if utf8.ValidString(name) {
		return name, nil
	}
	return strings.ToValidUTF8(name, "\ufffd"), []byte(name)
}

// bytesOrText returns the name that textAndBytes was given.
func bytesOrText(text string, raw []byte) string {
	if len(raw) > 0 {
		return string(raw)
	}
	return text
}

// FileList is a list of files.
type FileList struct {
	Entries []FileInfo `json:"entries"`
}

// FileEvent is a change in a watched directory. Paths are relative to it, and need not
// be UTF-8, as those of FileInfo.
type FileEvent struct {
	Event      string `json:"event" enum:"started,created,modified,removed,renamed,overflow"`
	Path       string `json:"path,omitempty"`
	PathBase64 []byte `json:"path_base64,omitempty" doc:"The bytes of the path, if it is not UTF-8."`
	From       string `json:"from,omitempty" doc:"The old path of what was renamed."`
	FromBase64 []byte `json:"from_base64,omitempty" doc:"The bytes of the old path, if it is not UTF-8."`
}

// MarshalJSON implements json.Marshaler.
func (v FileEvent) MarshalJSON() ([]byte, error) {
	type plain FileEvent
	p := plain(v)
	p.Path, p.PathBase64 = textAndBytes(v.Path)
	p.From, p.FromBase64 = textAndBytes(v.From)
	return json.Marshal(p)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *FileEvent) UnmarshalJSON(data []byte) error {
	type plain FileEvent
	if err := json.Unmarshal(data, (*plain)(v)); err != nil {
		return err
	}
	v.Path, v.PathBase64 = bytesOrText(v.Path, v.PathBase64), nil
	v.From, v.FromBase64 = bytesOrText(v.From, v.FromBase64), nil
	return nil
}

// WatchBody is the body of POST /v1/cells/{cell}/files/watch.
type WatchBody struct {
	Path      string `json:"path,omitempty" doc:"A directory, relative to the workspace, or absolute in the cell."`
	Recursive bool   `json:"recursive,omitempty" doc:"Also what is below it."`
}

// Copied is the answer of POST /v1/cells/{cell}/files/copy.
type Copied struct {
	// Notes name what was left out.
	Notes []string `json:"notes"`
}

// NotesTrailer is the trailer of a copy stream: a JSON list of sentences that name what
// was left out or dropped.
const NotesTrailer = "Forkcell-Notes"
