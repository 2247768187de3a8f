package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// maxEntries bounds the list of files in a result.
const maxEntries = 1000

// fileTools returns the tools that read and write files.
func fileTools() []tool {
	return []tool{
		define(tool{
			op: op.ReadFile, name: "read_file", title: "Read a file",
			about: "Read a file of a cell, at most 16 KiB at once; offset reads on. The files of an idle cell are those of its present state.",
		}, readFile),
		define(tool{
			op: op.WriteFile, name: "write_file", title: "Write a file",
			about: "Replace a file of a live cell, or make it. Call start first; in an idle cell, files are written by run.",
		}, writeFile),
		define(tool{
			op: op.ListFiles.Verb, name: "list_files", title: "List files",
			about: "List a directory of a cell, with its subdirectories as deep as depth says.",
		}, listFiles),
		define(tool{
			op: op.ReadFile, name: "search_files", title: "Search files",
			about: "Find the lines that match a regular expression (RE2 syntax) in the files of a cell.",
		}, searchFiles),
	}
}

type readFileArgs struct {
	InCell
	Path   string `json:"path" doc:"Relative to the workspace, or absolute in the cell."`
	Offset int64  `json:"offset,omitempty" minimum:"0" doc:"Begin after so many bytes."`
	Length int64  `json:"length,omitempty" minimum:"1" maximum:"16384" doc:"At most so many bytes; 16 KiB by default."`
}

// contents is the document of a part of a file.
type contents struct {
	Path          string `json:"path"`
	Size          int64  `json:"size"`
	Offset        int64  `json:"offset"`
	Content       string `json:"content"`
	ContentBase64 []byte `json:"content_base64,omitempty"`
	// Next is where the next part begins; nil is the end of the file.
	Next *int64 `json:"next"`
}

func readFile(ctx context.Context, c *call, in readFileArgs) (*answer, error) {
	length := in.Length
	if length == 0 {
		length = maxText
	}
	r := request{method: http.MethodGet, path: path("cells", in.Cell, "files"), query: url.Values{"path": {in.Path}}}
	r.bytes = fmt.Sprintf("bytes=%d-%d", in.Offset, in.Offset+length-1)
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := readAll(resp.Body)
	if err != nil {
		return nil, err
	}
	doc := &contents{Path: in.Path, Offset: in.Offset, Size: int64(len(data))}
	if _, size, ok := strings.Cut(resp.Header.Get("Content-Range"), "/"); ok {
		if doc.Size, err = strconv.ParseInt(size, 10, 64); err != nil {
			return nil, fmt.Errorf("the size of the file: %w", err)
		}
	}
	return doc.fill(data), nil
}

// fill adds the bytes of a part to its document.
func (d *contents) fill(data []byte) *answer {
	if text := api.WholeEnd(data); d.Offset+int64(len(data)) < d.Size && utf8.Valid(text) {
		data = text // the rest of the character comes with the next part
	}
	note := ""
	if next := d.Offset + int64(len(data)); next < d.Size {
		d.Next = &next
		note = fmt.Sprintf("\n[%d of %d bytes; read on with offset %d]", len(data), d.Size, next)
	}
	if !utf8.Valid(data) {
		d.ContentBase64 = data
		return &answer{d, fmt.Sprintf("%d bytes that are not text", len(data)) + note}
	}
	d.Content = string(data)
	if len(data) == 0 {
		note = "[nothing: the file has " + strconv.FormatInt(d.Size, 10) + " bytes]"
	}
	return &answer{d, d.Content + note}
}

type writeFileArgs struct {
	InCell
	Path          string `json:"path" doc:"Relative to the workspace, or absolute in the cell."`
	Content       string `json:"content,omitempty" doc:"The new content, as text."`
	ContentBase64 []byte `json:"content_base64,omitempty" doc:"The new content, in base64."`
	Mode          string `json:"mode,omitempty" doc:"Permission bits in octal, such as 0755. Without it they stay; those of a new file are 0644."`
}

func writeFile(ctx context.Context, c *call, in writeFileArgs) (*answer, error) {
	data := []byte(in.Content)
	if len(in.ContentBase64) > 0 {
		if in.Content != "" {
			return nil, api.Usagef("send one of them", "content and content_base64 exclude each other")
		}
		data = in.ContentBase64
	}
	q := query{"path": {in.Path}}
	q.set("mode", in.Mode)
	doc, raw, err := fetch[api.FileInfo](ctx, c, request{method: http.MethodPut, path: path("cells", in.Cell, "files"), query: url.Values(q), body: data})
	if err != nil {
		return nil, err
	}
	return &answer{raw, fmt.Sprintf("wrote %d bytes to %s", doc.Size, doc.Path)}, nil
}

// fileList is the document of a list. Truncated says that its end is missing.
type fileList struct {
	Entries   []json.RawMessage `json:"entries"`
	Truncated bool              `json:"truncated"`
}

func listFiles(ctx context.Context, c *call, in api.ListFilesRequest) (*answer, error) {
	list, raw, err := carryOut(ctx, c, op.ListFiles, in)
	if err != nil {
		return nil, err
	}
	var doc fileList
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	lines := []string{api.Counted(len(list.Entries), "file")}
	for _, e := range list.Entries {
		lines = append(lines, fmt.Sprintf("%-7s %s %9d %s", e.Type, e.Mode, e.Size, e.Path))
	}
	if len(doc.Entries) > maxEntries {
		doc.Entries, doc.Truncated = doc.Entries[:maxEntries], true
		lines[0] += fmt.Sprintf(", of which the document has %d", maxEntries)
	}
	return &answer{doc, strings.Join(lines, "\n")}, nil
}
