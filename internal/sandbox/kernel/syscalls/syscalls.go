// Package syscalls lists the kernel's system calls:
// their names and numbers on the architectures that cells run on, and which of
// them a cell is denied, with the reason.
//
// It is data with lookups. It makes no system call and knows nothing of the
// filter that enforces the deny set (internal/sandbox/kernel/seccomp) or of the policy that
// asks for exceptions. A process which links it pays nothing at its start.
package syscalls

import (
	_ "embed" // the table
	"sort"
	"strconv"
	"strings"
	"sync"
)

//go:generate go run generate.go

// Arch is an architecture that cells run on.
type Arch uint8

// The architectures.
const (
	AMD64 Arch = iota
	ARM64
)

// String returns Go's name of the architecture.
func (a Arch) String() string {
	if a == ARM64 {
		return "arm64"
	}
	return "amd64"
}

// Arches are all architectures.
func Arches() []Arch { return []Arch{AMD64, ARM64} }

// ParseArch returns the architecture that Go calls name.
func ParseArch(name string) (Arch, bool) {
	switch name {
	case "amd64":
		return AMD64, true
	case "arm64":
		return ARM64, true
	}
	return 0, false
}

// table has a line for each call, sorted by name: the name and its number on each
// architecture, -1 where it has none. All lines are of one length.
//
//go:embed table.txt
var table string

// The columns of the table.
const (
	nameWidth   = 28
	numberWidth = 5
	lineWidth   = nameWidth + 2*numberWidth + 1
)

// nameAt returns the name on a line of the table.
func nameAt(line int) string {
	return strings.TrimRight(table[line*lineWidth:line*lineWidth+nameWidth], " ")
}

// numberAt returns the number on a line of the table, and false if there is none.
func numberAt(line int, arch Arch) (int, bool) {
	begin := line*lineWidth + nameWidth + int(arch)*numberWidth
	n, err := strconv.Atoi(strings.TrimLeft(table[begin:begin+numberWidth], " "))
	return n, err == nil && n >= 0
}

// indexes have the line of each number, counted from 1; 0 is no call. They are made at
// their first use.
var indexes [2]struct {
	once  sync.Once
	lines []uint16
}

func index(arch Arch) []uint16 {
	x := &indexes[arch]
	x.once.Do(func() {
		for line := range len(table) / lineWidth {
			n, ok := numberAt(line, arch)
			if !ok {
				continue
			}
			if n >= len(x.lines) {
				x.lines = append(x.lines, make([]uint16, n+1-len(x.lines))...)
			}
			x.lines[n] = uint16(line + 1)
		}
	})
	return x.lines
}

// Known reports whether some architecture has a call of that name.
func Known(name string) bool {
	_, ok := find(name)
	return ok
}

// Number returns the number of a call, and false if there is no such call on
// that architecture.
func Number(arch Arch, name string) (int, bool) {
	line, ok := find(name)
	if !ok {
		return 0, false
	}
	return numberAt(line, arch)
}

// Name returns the name of the call with that number, and false if there is
// none that this program knows.
func Name(arch Arch, number int) (string, bool) {
	lines := index(arch)
	if number < 0 || number >= len(lines) || lines[number] == 0 {
		return "", false
	}
	return nameAt(int(lines[number]) - 1), true
}

// Last returns the highest number that this program knows. A kernel that is
// newer than the table has calls above it.
func Last(arch Arch) int { return len(index(arch)) - 1 }

// Names returns the names of all calls, sorted.
func Names() []string {
	names := make([]string, len(table)/lineWidth)
	for i := range names {
		names[i] = nameAt(i)
	}
	return names
}

func find(name string) (int, bool) {
	return sort.Find(len(table)/lineWidth, func(line int) int { return strings.Compare(name, nameAt(line)) })
}
