package adapter

import (
	"cmp"
	"strconv"
	"strings"
)

// isVersion reports whether a text begins with numbers joined by dots, as in 2.1.197
// or 1.0.0-beta.
func isVersion(s string) bool {
	number, _, _ := strings.Cut(s, "-")
	parts := strings.Split(number, ".")
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 10, 32); err != nil {
			return false
		}
	}
	return len(parts) > 1 && len(s) <= 64
}

// ParseVersion returns the first version in the output of a program; "" if there is
// none.
func ParseVersion(output string) string {
	for _, word := range strings.Fields(output) {
		if word = strings.TrimPrefix(strings.Trim(word, "()[],;."), "v"); isVersion(word) {
			return word
		}
	}
	return ""
}

// The places of a version in the range that was tested.
const (
	VersionTested  = "tested"
	VersionOlder   = "older than the tested ones"
	VersionNewer   = "newer than the tested ones"
	VersionUnknown = "unknown"
)

// Place returns where a version is in the range. Within the range, versions that were
// not tested one by one count as tested.
func (r Range) Place(version string) string {
	switch {
	case version == "" || r.From == "" || r.To == "":
		return VersionUnknown
	case compare(version, r.From) < 0:
		return VersionOlder
	case compare(version, r.To) > 0:
		return VersionNewer
	}
	return VersionTested
}

// compare compares versions number by number. What follows a dash does not count.
func compare(a, b string) int {
	a, _, _ = strings.Cut(a, "-")
	b, _, _ = strings.Cut(b, "-")
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		if c := cmp.Compare(part(x, i), part(y, i)); c != 0 {
			return c
		}
	}
	return 0
}

func part(parts []string, i int) uint64 {
	if i >= len(parts) {
		return 0
	}
	n, err := strconv.ParseUint(parts[i], 10, 32)
	if err != nil {
		return 0
	}
	return n
}
