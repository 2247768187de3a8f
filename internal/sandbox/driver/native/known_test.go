package native

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSignalIsNoEnd: a process lives, although signals interrupt the question. The
// runtime sends such signals to its threads on a busy machine.
func TestSignalIsNoEnd(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k, err := openProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	thread, stop, done := unix.Gettid(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for range 50_000 {
		if !k.isAlive() {
			t.Fatal("this process has ended")
		}
	}
}
