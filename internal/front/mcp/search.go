package mcp

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	stdpath "path"
	"regexp"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
)

// Bounds of a search: the lines that it reads and shows, the beginning of a file that
// is examined for binary content, and the matches.
const (
	maxLine       = 64 << 10
	maxShown      = 400
	sniffed       = 8000
	defaultResult = 100
)

type searchArgs struct {
	InCell
	Pattern string `json:"pattern" doc:"A regular expression, in RE2 syntax."`
	Path    string `json:"path,omitempty" doc:"A file or directory: relative to the workspace, or absolute in the cell. Without it, the workspace."`
	Include string `json:"include,omitempty" doc:"Only files whose names match, such as *.go."`
	Limit   int    `json:"limit,omitempty" minimum:"1" maximum:"1000" doc:"At most so many matches; 100 by default."`
}

// match is one line that matches.
type match struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// matches is the document of a search. Truncated says that there are more.
type matches struct {
	Matches   []match `json:"matches"`
	Files     int     `json:"files"` // that were searched
	Truncated bool    `json:"truncated"`
}

// errEnough ends a search.
var errEnough = errors.New("enough matches")

func searchFiles(ctx context.Context, c *call, in searchArgs) (*answer, error) {
	s, err := newSearch(in)
	if err != nil {
		return nil, err
	}
	r := request{method: http.MethodGet, path: path("cells", in.Cell, "files"), query: url.Values{"path": {s.root}}, accept: "application/x-tar"}
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	err = s.archive(resp.Body, func() { c.progress.report(ctx, fmt.Sprintf("%d files searched", s.doc.Files)) })
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	s.doc.Truncated = err != nil
	lines := []string{fmt.Sprintf("%s in %s", api.Counted(len(s.doc.Matches), "matching line"), api.Counted(s.doc.Files, "file"))}
	if s.doc.Truncated {
		lines[0] += ", and there are more"
	}
	for _, m := range s.doc.Matches {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", m.Path, m.Line, m.Text))
	}
	return &answer{s.doc, strings.Join(lines, "\n")}, nil
}

// search looks for lines in files.
type search struct {
	pattern *regexp.Regexp
	include string
	root    string
	limit   int
	doc     *matches
}

func newSearch(in searchArgs) (*search, error) {
	s := &search{include: in.Include, root: in.Path, limit: in.Limit, doc: &matches{Matches: []match{}}}
	var err error
	if s.pattern, err = regexp.Compile(in.Pattern); err != nil {
		return nil, api.Usagef("use RE2 syntax", "pattern: %v", err)
	}
	if _, err := stdpath.Match(in.Include, ""); err != nil {
		return nil, api.Usagef("write it as *.go", "include: %v", err)
	}
	if s.root == "" {
		s.root = "."
	}
	if s.limit == 0 {
		s.limit = defaultResult
	}
	return s, nil
}

// archive searches the files of an archive. It returns errEnough at the limit.
func (s *search) archive(r io.Reader, each func()) error {
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			// What follows the last file is read as well: the archive is whole then.
			_, err := io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return fmt.Errorf("read the files: %w", err)
		}
		name := stdpath.Join(s.root, h.Name) //nolint:gosec // a name to show: nothing is opened by it
		if ok, _ := stdpath.Match(s.include, stdpath.Base(name)); h.Typeflag != tar.TypeReg || s.include != "" && !ok {
			continue
		}
		s.doc.Files++
		each()
		if err := s.file(name, in); err != nil {
			return err
		}
	}
}

// file searches one file, unless it is binary.
func (s *search) file(name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, maxLine)
	if begin, _ := in.Peek(sniffed); bytes.IndexByte(begin, 0) >= 0 {
		return nil
	}
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if s.pattern.Match(bytes.TrimRight(line, "\r\n")) && len(line) > 0 {
			if len(s.doc.Matches) == s.limit {
				return errEnough
			}
			s.doc.Matches = append(s.doc.Matches, match{name, n, visibleLine(line)})
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n') // the rest of a line that is too long
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// visibleLine returns a line for the model.
func visibleLine(line []byte) string {
	text := strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "\uFFFD")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}
