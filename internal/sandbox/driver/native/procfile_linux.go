package native

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// readProc reads a file of /proc. The standard library asks for the size of such a
// file, and tries to have it watched, with every read; a branch reads some hundred.
func readProc(path string) ([]byte, error) {
	fd, err := retryInterrupted(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	const usual = 2 << 10
	data := make([]byte, 0, usual)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := retryInterrupted(func() (int, error) { return unix.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if n == 0 {
			return data, nil
		}
		data = data[:len(data)+n]
	}
}

// retryInterrupted repeats a call that a signal interrupts.
func retryInterrupted(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
