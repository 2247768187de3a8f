// Package syscalls lists the kernel's system calls:
// their names and numbers on the architectures that cells run on, and which of
// them a cell is denied, with the reason.
//
// It is data with lookups. It makes no system call and knows nothing of the
// filter that enforces the deny set (internal/sandbox/kernel/seccomp) or of the policy that
// asks for exceptions. Everything here is laid out by the compiler, so that a
// process which links it pays nothing at its start.
package syscalls

import (
	"slices"
	"strings"
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

// entry is one call: its name and its number on each architecture.
type entry struct {
	name   string
	number [2]int16
}

// Known reports whether some architecture has a call of that name.
func Known(name string) bool {
	_, ok := find(name)
	return ok
}

// Number returns the number of a call, and false if there is no such call on
// that architecture.
func Number(arch Arch, name string) (int, bool) {
	at, ok := find(name)
	if !ok || table[at].number[arch] < 0 {
		return 0, false
	}
	return int(table[at].number[arch]), true
}

// Name returns the name of the call with that number, and false if there is
// none that this program knows.
func Name(arch Arch, number int) (string, bool) {
	if number < 0 || number >= len(rows[arch]) || rows[arch][number] == 0 {
		return "", false
	}
	return table[rows[arch][number]-1].name, true
}

// Last returns the highest number that this program knows. A kernel that is
// newer than the table has calls above it.
func Last(arch Arch) int { return len(rows[arch]) - 1 }

// Names returns the names of all calls, sorted.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].name
	}
	return names
}

func find(name string) (int, bool) {
	return slices.BinarySearchFunc(table[:], name, func(e entry, name string) int {
		return strings.Compare(e.name, name)
	})
}
