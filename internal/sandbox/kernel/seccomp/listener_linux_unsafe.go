//go:build linux

package seccomp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's struct seccomp_notif, seccomp_notif_resp, seccomp_notif_sizes.
type (
	kernelNotice struct {
		id     uint64
		pid    uint32
		flags  uint32
		number int32
		arch   uint32
		ip     uint64
		args   [6]uint64
	}
	kernelAnswer struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
	kernelSizes struct{ notice, answer, data uint16 }
)

// notification holds the buffers of one call at a time. A newer kernel may want
// larger ones than are known here.
type notification struct {
	notice, answerTo []uint64
}

func newNotification() (notification, error) {
	var sizes kernelSizes
	_, _, no := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	if no != 0 {
		return notification{}, no
	}
	words := func(kernel uint16, own uintptr) []uint64 {
		return make([]uint64, (max(uintptr(kernel), own)+7)/8)
	}
	return notification{
		notice:   words(sizes.notice, unsafe.Sizeof(kernelNotice{})),
		answerTo: words(sizes.answer, unsafe.Sizeof(kernelAnswer{})),
	}, nil
}

func (n *notification) receive(fd int) error {
	clear(n.notice) // the kernel insists
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(unsafe.SliceData(n.notice)))
}

func (n *notification) read() Notice {
	k := (*kernelNotice)(unsafe.Pointer(unsafe.SliceData(n.notice)))
	name, denied := handedOver(k.arch, int(k.number))
	return Notice{PID: int(k.pid), Name: name, Args: k.args, Denied: denied}
}

func (n *notification) answer(fd int, denied unix.Errno) error {
	clear(n.answerTo)
	k := (*kernelNotice)(unsafe.Pointer(unsafe.SliceData(n.notice)))
	a := (*kernelAnswer)(unsafe.Pointer(unsafe.SliceData(n.answerTo)))
	*a = kernelAnswer{id: k.id, errno: -int32(denied)}
	if denied == 0 {
		a.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(a))
}

// isWaiting asks whether the caller still does.
func (n *notification) isWaiting(fd int) error {
	k := (*kernelNotice)(unsafe.Pointer(unsafe.SliceData(n.notice)))
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&k.id))
}

func wakeSynchronously(fd int) error {
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	if no != 0 {
		return no
	}
	return nil
}

func ioctl(fd int, request uintptr, p unsafe.Pointer) error {
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
	if no != 0 {
		return no
	}
	return nil
}
