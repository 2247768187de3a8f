package credential

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/fsx"
)

// maxFile bounds the operator's credentials file.
const maxFile = 256 << 10

// ErrFile says that the credentials file cannot be trusted or read.
var ErrFile = errors.New("the credentials file")

// Assignment names a credential and its source, as in NAME=env:VARIABLE.
type Assignment struct {
	Name   string
	Source Source
}

// ParseAssignment reads NAME=SOURCE, the value of `--credential`.
func ParseAssignment(s string) (Assignment, error) {
	name, text, ok := strings.Cut(s, "=")
	if !ok {
		return Assignment{}, errors.New("a credential is given as NAME=SOURCE")
	}
	if !nameOK(name) {
		return Assignment{}, errors.New("the name of a credential has letters, digits, . _ - and at most 63 of them")
	}
	source, err := ParseSource(text)
	if err != nil {
		return Assignment{}, fmt.Errorf("credential %s: %w", name, err)
	}
	return Assignment{name, source}, nil
}

// nameOK is the rule that a policy has for the names of credentials.
func nameOK(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= 63 && strings.Trim(s[:1], letters+"_") == "" && strings.Trim(s, letters+"._-") == ""
}

// ParseFile reads the operator's credentials file: one NAME=SOURCE a line, as
// `--credential` takes it, so that a line can be tried there; empty lines and
// lines that start with # say nothing. There is no quoting and no continuation.
// A name has one line, and the path of a file source is absolute, because the
// file is used from every directory. Errors hold the line's number and not its
// text, in which somebody may have written a value by mistake.
func ParseFile(text []byte) ([]Assignment, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w is larger than %d bytes", ErrFile, maxFile)
	}
	var out []Assignment
	seen := map[string]bool{}
	n := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		n++
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		a, err := ParseAssignment(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w, line %d: not NAME=SOURCE: %w", ErrFile, n, ErrSource)
		case seen[a.Name]:
			return nil, fmt.Errorf("%w, line %d: %s has a line already", ErrFile, n, a.Name)
		case a.Source.kind == fromFile && !filepath.IsAbs(a.Source.name):
			return nil, fmt.Errorf("%w, line %d: the path is not absolute", ErrFile, n)
		case strings.HasSuffix(line, "\r"), strings.TrimSpace(line) != line:
			return nil, fmt.Errorf("%w, line %d: blanks around it", ErrFile, n)
		}
		seen[a.Name] = true
		out = append(out, a)
	}
	return out, nil
}

// ReadFile reads the operator's credentials file, which must belong to the caller
// and which nobody else may read or write. A file that does not exist is
// os.ErrNotExist.
func ReadFile(path string) ([]Assignment, error) {
	text, err := fsx.ReadOwn(path, 0o077, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return ParseFile(text)
}
