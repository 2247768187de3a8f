package cellinit

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/spawn"
)

// A process may join namespaces whose user namespace its own user has made, and
// only a pid namespace below its own. So what makes the namespaces of a template's
// branches must be in the template's user and pid namespaces: that is its spawner.
// It sees the host's mounts, from which each branch builds its own tree, and it
// exists before any command of the template does. Nobody in the template can look
// into it.

// startSpawner starts the spawner of this cell, before the host's mounts are left.
func startSpawner(control int) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	c := spawn.Config{Name: protocol.SpawnerName, Flags: unix.CLONE_NEWNS}
	if unix.Geteuid() != 0 {
		c.Ambient = spawn.Capabilities()
	}
	mounts, err := os.Open("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	defer mounts.Close()
	fd := int(null.Fd())
	_, pidfd, err := c.Start("/proc/self/exe", []string{}, []int{fd, fd, fd, control, int(mounts.Fd())})
	if err != nil {
		return err
	}
	// It ends with this process, and so with its namespace.
	return unix.Close(pidfd)
}

// mountsFD is where the spawner finds the mount namespace of the template.
const mountsFD = controlFD + 1

// spawner starts first processes. It does so on its main thread, which they end
// with.
type spawner struct {
	conn *protocol.Conn
	id   protocol.Identity
	null int
}

// serveSpawner is the spawner's whole life: it ends when its parent is gone.
func serveSpawner(c *protocol.Conn) {
	s := &spawner{conn: c}
	err := s.prepare()
	if c.Write(answerOf(err)) != nil || err != nil {
		os.Exit(1)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go reapSpawned(ended)
	for {
		var o protocol.SpawnOrder
		fds, err := c.Read(&o)
		if err != nil {
			os.Exit(1)
		}
		if len(o.Detach) > 0 {
			if c.Write(answerOf(s.detach(o.Detach))) != nil {
				os.Exit(1)
			}
			continue
		}
		pidfd, err := s.start(fds)
		mountfd.CloseAll(fds)
		if err != nil {
			err = c.Write(answerOf(err))
		} else {
			err = c.Write(&protocol.Spawned{}, pidfd)
			_ = unix.Close(pidfd)
		}
		if err != nil {
			os.Exit(1)
		}
	}
}

func answerOf(err error) *protocol.Spawned {
	if err == nil {
		return &protocol.Spawned{}
	}
	return &protocol.Spawned{Problem: err.Error()}
}

func (s *spawner) prepare() error {
	var m protocol.Spawner
	if _, err := s.conn.Read(&m); err != nil {
		return orEnd(err)
	}
	s.id = m.ID
	unix.CloseOnExec(mountsFD)
	if err := closeInherited(); err != nil {
		return err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.null = null
	visible := uintptr(0)
	if s.id.Root {
		if err := actAs(s.id); err != nil {
			return err
		}
		// The kernel has hidden it. Nobody but root may look into it anyhow, and those
		// that share its memory could not get their maps.
		visible = 1
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, visible, 0, 0, 0); err != nil {
		return fault.At("hide the spawner", err)
	}
	return fault.At("parent's death", dieWithParent())
}

// actAs makes the sandbox user the one that owns what this thread makes. The thread
// stays root otherwise, so that the sandbox user can neither send it a signal nor
// look into it.
func actAs(id protocol.Identity) error {
	same := ^uintptr(0)
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESGID, same, uintptr(id.GID), same); no != 0 {
		return fmt.Errorf("group: %w", no)
	}
	if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(id.UID), same); no != 0 {
		return fmt.Errorf("user: %w", no)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&hdr, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for i := range sets {
		sets[i].Effective = sets[i].Permitted
	}
	if err := unix.Capset(&hdr, &sets[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// start starts one first process.
func (s *spawner) start(fds []int) (pidfd int, err error) {
	if len(fds) != 1 {
		return -1, fault.At("order", unix.EINVAL)
	}
	c := spawn.Config{Name: protocol.InitName, Root: s.id.Root, Nested: true}
	if !s.id.Root {
		c.Ambient = spawn.Capabilities()
	}
	c.Flags, _ = protocol.Namespaces()
	c.MapNested(s.id.Root, s.id.UID, s.id.GID)
	_, pidfd, err = c.Start("/proc/self/exe", []string{}, []int{s.null, s.null, s.null, fds[0]})
	return pidfd, err
}

// openNamespaces opens the namespaces of this process for one that joins the cell.
func openNamespaces() (fds []int, err error) {
	for _, name := range protocol.JoinOrder() {
		fd, err := unix.Open("/proc/self/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// detach takes mounts off the template's tree. It does so on a thread of its own,
// which ends with it.
func (s *spawner) detach(paths [][]byte) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(mountsFD, unix.CLONE_NEWNS)
		}
		for _, path := range slices.Backward(paths) {
			if err != nil {
				break
			}
			if err = unix.Unmount(string(path), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				err = fmt.Errorf("detach %s: %w", path, err)
			}
		}
		done <- err
	}()
	return <-done
}

// reapSpawned clears away first processes when they have ended.
func reapSpawned(ended <-chan os.Signal) {
	for range ended {
		for {
			var status unix.WaitStatus
			if pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, nil); err != nil || pid == 0 {
				break
			}
		}
	}
}
