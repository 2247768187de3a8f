package credential

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// maxFile bounds the operator's credentials file.
const maxFile = 256 << 10

// ErrFile is returned for a credentials file that cannot be trusted or read.
var ErrFile = errors.New("the credentials file")

// Assignment names a credential and its source, as in NAME=env:VARIABLE.
type Assignment struct {
	Name   string
	Source Source
}

// IsName reports whether a value of `--credential` is only a name: the run may
// then use the credentials file's line for it.
func IsName(s string) bool { return nameOK(s) }

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

// nameOK reports whether s is a valid name of a credential in a policy.
func nameOK(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= 63 && strings.Trim(s[:1], letters+"_") == "" && strings.Trim(s, letters+"._-") == ""
}

// Line is a line of the operator's credentials file.
type Line struct {
	Assignment

	// For lists where the credential may go. A line without it applies only
	// when the operator names the credential for the run.
	For []Place
}

// Place is a host that a credential may go to: a pattern as in a policy. Port 0
// is every port.
type Place struct {
	Host match.Host
	Port uint16
}

// Uncovered returns the first endpoint of a policy's credential that no place of
// the line covers; "" if there is none.
func (l Line) Uncovered(c policy.Credential) string {
	for _, e := range c.Endpoints {
		for _, port := range e.Ports {
			covered := slices.ContainsFunc(l.For, func(p Place) bool {
				return (p.Port == 0 || p.Port == port) && (p.Host.Equal(e.Host) || e.Host.Exact() && p.Host.Match(e.Host.String()))
			})
			if !covered {
				return net.JoinHostPort(e.Host.String(), strconv.Itoa(int(port)))
			}
		}
	}
	return ""
}

// ParseFile reads the operator's credentials file. A line is
//
//	NAME=SOURCE for HOST[:PORT][,HOST[:PORT]]...
//
// with NAME=SOURCE as `--credential` takes it; the last " for " counts. Empty
// lines and lines that start with # are ignored. There is no quoting and no
// continuation. A name has one line. The path of a file source is absolute,
// because the file is used from every directory. Errors contain the line's
// number but not its text, which may hold a value by mistake.
func ParseFile(text []byte) ([]Line, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w is larger than %d bytes", ErrFile, maxFile)
	}
	var out []Line
	seen := map[string]bool{}
	n := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		n++
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		l, err := parseLine(line)
		if err == nil && seen[l.Name] {
			err = fmt.Errorf("%s has a line already", l.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%w, line %d: %w", ErrFile, n, err)
		}
		seen[l.Name] = true
		out = append(out, l)
	}
	return out, nil
}

func parseLine(line string) (l Line, err error) {
	source, places, bound := line, "", false
	if i := strings.LastIndex(line, forWord); i >= 0 {
		source, places, bound = line[:i], line[i+len(forWord):], true
	}
	if l.Assignment, err = ParseAssignment(source); err != nil {
		return l, fmt.Errorf("not NAME=SOURCE for HOST[:PORT]: %w", ErrSource)
	}
	switch {
	case (l.Source.kind == fromFile || l.Source.kind == fromJSON) && !filepath.IsAbs(l.Source.name):
		return l, errors.New("the path is not absolute")
	case strings.HasSuffix(line, "\r"), strings.TrimSpace(line) != line, strings.TrimSpace(source) != source:
		return l, errors.New("blanks around it")
	}
	if !bound {
		return l, nil
	}
	for text := range strings.SplitSeq(places, ",") {
		place, ok := parsePlace(text)
		if !ok {
			return l, errors.New("what follows for is not HOST[:PORT][,...]")
		}
		l.For = append(l.For, place)
	}
	return l, nil
}

const forWord = " for "

// parsePlace reads HOST[:PORT]. An IPv6 address stands in brackets.
func parsePlace(text string) (p Place, ok bool) {
	host, port := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:i], text[i+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return p, false
		}
		p.Port = uint16(n)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return p, false
		}
	} else if strings.Contains(host, ":") {
		return p, false
	}
	var err error
	p.Host, err = match.NewHost(host)
	return p, err == nil
}

// ReadFile reads the operator's credentials file. The file must belong to the
// caller, and no other user may read or write it. If it does not exist, the
// error is os.ErrNotExist.
func ReadFile(path string) ([]Line, error) {
	text, err := fsx.ReadOwn(path, 0o077, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return ParseFile(text)
}
