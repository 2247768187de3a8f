// Package gosum reads go.sum files, and hashes module archives and go.mod files as the
// go command does. It knows no caches, no cells and no networks.
package gosum

import (
	"bufio"
	"io"
	"strings"
)

// maxLine bounds a line of a go.sum. The go command writes lines below 200 bytes.
const maxLine = 4096

// Sums are the hashes of go.sum files, by "module version".
type Sums map[string]map[string]bool

// Add adds the lines of one go.sum. A line that is not of its format is left out.
func (s Sums) Add(r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, long, err := lines.ReadLine()
		for long && err == nil {
			line = nil
			_, long, err = lines.ReadLine()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if f := strings.Fields(string(line)); len(f) == 3 {
			key := f[0] + " " + f[1]
			if s[key] == nil {
				s[key] = map[string]bool{}
			}
			s[key][f[2]] = true
		}
	}
}

// Lists reports whether there is a hash of a version of a module.
func (s Sums) Lists(module, version string) bool { return len(s[module+" "+version]) > 0 }

// Has reports whether a version of a module has a hash.
func (s Sums) Has(module, version, hash string) bool {
	return s[module+" "+version][hash]
}

// Unescape returns the module path or the version that a name of the module cache stands
// for: a capital letter is an exclamation mark and the small letter there.
func Unescape(name string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			return "", false
		case c == '!':
			if i++; i == len(name) || name[i] < 'a' || 'z' < name[i] {
				return "", false
			}
			c = name[i] - 'a' + 'A'
		}
		b.WriteByte(c)
	}
	return b.String(), true
}
