package seccomp

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// call is what the kernel shows to a program.
type call struct {
	arch   uint32
	number uint32
	args   [6]uint64
}

func (c call) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(nil, c.number)
	b = binary.LittleEndian.AppendUint32(b, c.arch)
	b = binary.LittleEndian.AppendUint64(b, 0x7fff_1234_5678) // the instruction pointer
	for _, a := range c.args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	return b
}

// run is a classic BPF machine, written from its definition: numbers, not the
// constants that the assembler uses. It returns the answer and how many
// instructions it took.
func run(program []unix.SockFilter, c call) (answer uint32, steps int, err error) {
	data := c.bytes()
	var a uint32
	for pc := 0; ; pc++ {
		if pc < 0 || pc >= len(program) {
			return 0, steps, fmt.Errorf("left the program at %d", pc)
		}
		in := program[pc]
		steps++
		holds := false
		switch in.Code {
		case 0x20: // load an absolute word
			if in.K%4 != 0 || int(in.K)+4 > len(data) {
				return 0, steps, fmt.Errorf("instruction %d loads from %d", pc, in.K)
			}
			a = binary.LittleEndian.Uint32(data[in.K:])
			continue
		case 0x54: // and
			a &= in.K
			continue
		case 0x05: // jump always
			pc += int(in.K)
			continue
		case 0x06: // return
			return in.K, steps, nil
		case 0x15:
			holds = a == in.K
		case 0x25:
			holds = a > in.K
		case 0x35:
			holds = a >= in.K
		case 0x45:
			holds = a&in.K != 0
		default:
			return 0, steps, fmt.Errorf("instruction %d has code %#x", pc, in.Code)
		}
		if holds {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
}

// disassemble writes a program for people.
func disassemble(program []unix.SockFilter) string {
	var b strings.Builder
	for i, in := range program {
		fmt.Fprintf(&b, "%4d  ", i)
		jump := func(what string) {
			fmt.Fprintf(&b, "if %s goto %d else %d\n", what, i+1+int(in.Jt), i+1+int(in.Jf))
		}
		switch in.Code {
		case 0x20:
			fmt.Fprintf(&b, "load %s\n", field(in.K))
		case 0x54:
			fmt.Fprintf(&b, "and %#x\n", in.K)
		case 0x05:
			fmt.Fprintf(&b, "goto %d\n", i+1+int(in.K))
		case 0x06:
			fmt.Fprintf(&b, "return %s\n", answerName(in.K))
		case 0x15:
			jump(fmt.Sprintf("== %d", in.K))
		case 0x25:
			jump(fmt.Sprintf("> %d", in.K))
		case 0x35:
			jump(fmt.Sprintf(">= %d", in.K))
		case 0x45:
			jump(fmt.Sprintf("& %#x", in.K))
		default:
			fmt.Fprintf(&b, "%#v\n", in)
		}
	}
	return b.String()
}

func field(offset uint32) string {
	switch {
	case offset == 0:
		return "number"
	case offset == 4:
		return "arch"
	case offset >= 16 && offset%8 == 0:
		return fmt.Sprintf("arg%d", (offset-16)/8)
	case offset >= 16 && offset%8 == 4:
		return fmt.Sprintf("arg%d upper", (offset-16)/8)
	}
	return fmt.Sprintf("byte %d", offset)
}

func answerName(k uint32) string {
	name := map[uint32]string{0x7fff0000: "allow", 0x7fc00000: "notify", 0x00050000: "errno"}[k&0xffff0000]
	if name == "" {
		return fmt.Sprintf("%#x", k)
	}
	if k&0xffff != 0 {
		name += " " + unix.ErrnoName(unix.Errno(k&0xffff))
	}
	return name
}
