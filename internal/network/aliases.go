package network

import (
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// aliases finds the other names by which a policy's rules list an executable:
// symbolic links to it that the cell cannot change.
//
// A connection can be accepted after the cell has ended and its mounts are
// gone, so aliases remembers the targets of the names.
type aliases struct {
	origin driver.Origin

	mu          sync.Mutex
	executables map[string]string // by name, the executable
}

// newAliases looks up the names that a policy lists, while the cell exists.
func newAliases(o driver.Origin, p *policy.Policy) *aliases {
	a := &aliases{origin: o, executables: map[string]string{}}
	a.lookUp(p)
	return a
}

// lookUp looks up the names that a policy lists.
func (a *aliases) lookUp(p *policy.Policy) {
	for _, n := range p.AllNetwork() {
		for _, b := range n.Binaries {
			if b.Exact() {
				a.executable(b.String())
			}
		}
	}
}

// of returns the other names by which a policy lists an executable.
func (a *aliases) of(binary string, p *policy.Policy) []string {
	var also []string
	for _, n := range p.AllNetwork() {
		for _, b := range n.Binaries {
			name := b.String()
			if b.Exact() && name != binary && !slices.Contains(also, name) && a.executable(name) == binary {
				also = append(also, name)
			}
		}
	}
	return also
}

// executable returns the target of a name, "" if the cell may change it.
func (a *aliases) executable(name string) string {
	real, err := a.origin.Resolve(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.executables[name] = real
	case !errors.Is(err, fs.ErrNotExist):
		delete(a.executables, name)
	}
	return a.executables[name]
}
