package seccomp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// int80 is the machine code of a program that makes one call by the 32-bit
// entry and exits, by the 64-bit one, with the negated result.
func int80(number byte) []byte {
	return []byte{
		0xb8, number, 0, 0, 0, // mov eax, number
		0x31, 0xdb, // xor ebx, ebx
		0x31, 0xc9, // xor ecx, ecx
		0x31, 0xd2, // xor edx, edx
		0xcd, 0x80, // int 0x80
		0xf7, 0xd8, // neg eax
		0x89, 0xc7, // mov edi, eax
		0xb8, 231, 0, 0, 0, // mov eax, exit_group
		0x0f, 0x05, // syscall
	}
}

// executable wraps code into the smallest file that the kernel executes.
func executable(code []byte) []byte {
	const base, head = 0x400000, 64 + 56
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	put([]uint16{2, 62})                  // executable, x86-64
	put(uint32(1))                        // version
	put([]uint64{base + head, 64, 0})     // entry, program headers, sections
	put(uint32(0))                        // flags
	put([]uint16{64, 56, 1, 0, 0, 0})     // sizes and counts
	put([]uint32{1, 5})                   // load, readable and executable
	put([]uint64{0, base, base})          // offset and addresses
	put([]uint64{0, 0, 0x1000})           // lengths, filled in below
	length := uint64(b.Len() + len(code)) // file and memory alike
	binary.LittleEndian.PutUint64(b.Bytes()[96:], length)
	binary.LittleEndian.PutUint64(b.Bytes()[104:], length)
	b.Write(code)
	return b.Bytes()
}

// TestForeignABI makes 32-bit calls from a 64-bit program.
func TestForeignABI(t *testing.T) {
	t.Parallel()
	f := build(t, native(t), Options{})
	// getuid is 24 there, umount 22, socketcall 102, clone 120.
	for _, number := range []byte{24, 22, 102, 120} {
		file := filepath.Join(t.TempDir(), "int80")
		if err := os.WriteFile(file, executable(int80(number)), 0o755); err != nil {
			t.Fatal(err)
		}
		onThread(t, func() error {
			if _, err := f.Install(0); err != nil {
				return err
			}
			var exit *exec.ExitError
			if err := exec.Command(file).Run(); !errors.As(err, &exit) || exit.ExitCode() != int(unix.ENOSYS) {
				return fmt.Errorf("32-bit call %d: %w", number, err)
			}
			return nil
		})
	}
}
