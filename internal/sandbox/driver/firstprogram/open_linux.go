package firstprogram

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// Open puts the program into a file in memory that cannot be changed, and returns the
// path by which a child of this process executes it. The file is there until this process
// ends. The path is empty if this build has no such program, or if the kernel or a security
// module executes no files in memory: then the caller's own program serves.
func Open() (path string, err error) {
	if len(content) == 0 {
		return "", nil
	}
	fd, err := seal(content)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return "", nil // vm.memfd_noexec
	}
	if err != nil {
		return "", fmt.Errorf("program of first processes: %w", err)
	}
	if path = pathOf(fd); !executes(path) {
		return "", unix.Close(fd)
	}
	return path, nil
}

// executes reports whether a program can be executed. Without a plan, it ends at once.
func executes(path string) bool {
	err := exec.Command(path).Run()
	_, ended := errors.AsType[*exec.ExitError](err)
	return ended || err == nil
}

func pathOf(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// lowest is the lowest number of the file's descriptor. A child gets other files as the
// first few before it executes this one.
const lowest = 16

// seal makes an executable file of a program.
func seal(program []byte) (fd int, err error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	low, err := unix.MemfdCreate("forkcell-first", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 all of them are executable
		low, err = unix.MemfdCreate("forkcell-first", flags)
	}
	if err != nil {
		return -1, fmt.Errorf("memory file: %w", err)
	}
	f := os.NewFile(uintptr(low), "forkcell-first")
	defer f.Close()
	if _, err := f.Write(program); err != nil {
		return -1, fmt.Errorf("memory file: %w", err)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err = unix.FcntlInt(uintptr(low), unix.F_ADD_SEALS, seals|unix.F_SEAL_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 its mode cannot be sealed
		_, err = unix.FcntlInt(uintptr(low), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return -1, fmt.Errorf("seal memory file: %w", err)
	}
	if fd, err = unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, lowest); err != nil {
		return -1, fmt.Errorf("memory file: %w", err)
	}
	return fd, nil
}
