package seccomp

import (
	"crypto/sha256"
	_ "embed" // programs
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// errUnknownCall is returned for a name that no architecture has a call of.
var errUnknownCall = errors.New("no such system call")

// Filter is a program for the kernel. Its zero value denies nothing and cannot
// be installed.
type Filter struct {
	program []unix.SockFilter
	notify  Notify
}

// Notify is a set of calls that go to a listener.
type Notify uint8

const (
	// Denials are the rare ones among the denied calls. The listener gives the
	// same answer as the filter would.
	Denials Notify = 1 << iota
	// Connects are the calls of connect, which go on after the listener has seen
	// them.
	Connects
)

// watchedCall is the call that goes on after the listener has seen it.
const watchedCall = "connect"

// Options say which filter to build. The zero value denies the deny set.
type Options struct {
	// Allow are names taken out of the deny set. One that is not in it has no
	// effect; one that is no call at all is an error.
	Allow []string
	// Notify are the calls that go to a listener.
	Notify Notify
	// Live is for a cell that writes to a directory of the host: see
	// syscalls.LiveRules, of which Allow takes nothing out.
	Live bool
	// Held is for a template: see syscalls.HeldRules, of which Allow takes nothing out.
	Held bool
}

// Build returns a filter. The one that most cells have is not assembled.
func Build(arch syscalls.Arch, o Options) (Filter, error) {
	ready := !o.Live && !o.Held
	for _, name := range o.Allow {
		if !syscalls.Known(name) {
			return Filter{}, fmt.Errorf("seccomp filter: %q: %w", name, errUnknownCall)
		}
		_, denied := syscalls.Denied(name)
		ready = ready && !denied
	}
	f := Filter{notify: Denials | Connects}
	if ready {
		f.program = readyMade(arch)
	} else {
		f.program = assemble(arch, o)
	}
	return f.answerCalls(f.notify &^ o.Notify), nil
}

// The programs without exceptions, as Bytes returns them; the tests write them with -update.
var (
	//go:embed ready_amd64.bpf
	readyAMD64 string
	//go:embed ready_arm64.bpf
	readyARM64 string
)

// instruction is the length of one in the kernel's layout.
const instruction = 8

func readyMade(arch syscalls.Arch) []unix.SockFilter {
	data := []byte(readyAMD64)
	if arch == syscalls.ARM64 {
		data = []byte(readyARM64)
	}
	program := make([]unix.SockFilter, len(data)/instruction)
	for i := range program {
		in := data[i*instruction:]
		program[i] = unix.SockFilter{Code: binary.LittleEndian.Uint16(in), Jt: in[2], Jf: in[3], K: binary.LittleEndian.Uint32(in[4:])}
	}
	return program
}

// Notifies reports whether the filter asks for a listener.
func (f Filter) Notifies() bool { return f.notify != 0 }

// plain returns the same filter without a listener.
func (f Filter) plain() Filter { return f.answerCalls(f.notify) }

// answerCalls returns the filter that answers these calls itself.
//
// Where the program hands a call to the listener, it also holds the error that
// the call is to give, which the kernel ignores there. A call without an error is
// one that goes on.
func (f Filter) answerCalls(calls Notify) Filter {
	if calls == 0 {
		return f
	}
	program := slices.Clone(f.program)
	for i := range program {
		in := &program[i]
		if in.Code != opReturn || in.K&unix.SECCOMP_RET_ACTION_FULL != unix.SECCOMP_RET_USER_NOTIF {
			continue
		}
		switch errno := in.K & unix.SECCOMP_RET_DATA; {
		case errno != 0 && calls&Denials != 0:
			in.K = unix.SECCOMP_RET_ERRNO | errno
		case errno == 0 && calls&Connects != 0:
			in.K = unix.SECCOMP_RET_ALLOW
		}
	}
	return Filter{program: program, notify: f.notify &^ calls}
}

// Program returns the instructions.
func (f Filter) Program() []unix.SockFilter { return slices.Clone(f.program) }

// Bytes returns the instructions in the kernel's layout, little endian on every
// machine.
func (f Filter) Bytes() []byte {
	data := make([]byte, 0, instruction*len(f.program))
	for _, in := range f.program {
		data = binary.LittleEndian.AppendUint16(data, in.Code)
		data = append(data, in.Jt, in.Jf)
		data = binary.LittleEndian.AppendUint32(data, in.K)
	}
	return data
}

// Hash returns the SHA-256 of the instructions as Bytes returns them, as "sha256:"
// and hexadecimal digits.
func (f Filter) Hash() string {
	sum := sha256.Sum256(f.Bytes())
	return "sha256:" + hex.EncodeToString(sum[:])
}
