package adapter

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The marks in the content of a file. A mark is written ${NAME}, and its value stands
// as a JSON string has it, without the quotes: JSON and TOML read it alike.
const (
	// MarkWorkspace is the path of the workspace in the cell, MarkHome that of the home.
	MarkWorkspace = "workspace"
	MarkHome      = "home"
	// MarkTurn is the command that reports the end of a turn, MarkTool the one that
	// reports the use of a tool.
	MarkTurn = "turn"
	MarkTool = "tool"
	// MarkPlaceholder, followed by the key of a credential, is its placeholder.
	MarkPlaceholder = "placeholder."
	// MarkTail, followed by the key of a credential, is the last 20 characters of its
	// placeholder.
	MarkTail = "tail."
)

// Part is a piece of a file's content: a text, or a mark.
type Part struct{ Text, Mark string }

// Parts returns the content, piece by piece. An unknown mark is an error.
func (f File) Parts() ([]Part, error) {
	var out []Part
	rest := f.Content
	for {
		before, after, found := strings.Cut(rest, "${")
		out = append(out, Part{Text: before})
		if !found {
			return out, nil
		}
		mark, tail, closed := strings.Cut(after, "}")
		if !closed || !knownMark(mark) {
			return nil, fmt.Errorf("unknown mark ${%s}", mark[:min(len(mark), 40)])
		}
		out = append(out, Part{Mark: mark})
		rest = tail
	}
}

// Quote returns a value as it stands in place of a mark: as in a string of JSON, which
// is also one of TOML. Characters that only HTML minds stay as they are.
func Quote(value string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return "" // cannot happen: a string is always JSON
	}
	return strings.TrimSuffix(b.String(), "\"\n")[1:]
}

func knownMark(mark string) bool {
	for _, prefix := range []string{MarkPlaceholder, MarkTail} {
		if key, ok := strings.CutPrefix(mark, prefix); ok {
			return isKey(key)
		}
	}
	return slices.Contains([]string{MarkWorkspace, MarkHome, MarkTurn, MarkTool}, mark)
}

// FilesFor returns the files of a session with an autonomy and these credentials. If
// two are for one path, the later one replaces the earlier.
func (a *Adapter) FilesFor(autonomy string, keys []string) []File {
	var out []File
	for _, f := range a.Files {
		if f.Autonomy != "" && f.Autonomy != autonomy || f.Credential != "" && !slices.Contains(keys, f.Credential) {
			continue
		}
		out = slices.DeleteFunc(out, func(o File) bool { return o.Path == f.Path })
		out = append(out, f)
	}
	return out
}
