package landlock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// changes are all ways to change a directory, each with its own right.
func changes(dir string, want error) []step {
	in := func(name string) string { return filepath.Join(dir, name) }
	return []step{
		{"make file", open(in("a/new"), unix.O_CREAT|unix.O_WRONLY), want},
		{"write", open(in("a/file"), unix.O_WRONLY), want},
		{"append", open(in("a/file"), unix.O_WRONLY|unix.O_APPEND), want},
		{"make directory", func() error { return unix.Mkdir(in("a/d"), 0o755) }, want},
		{"make symbolic link", func() error { return unix.Symlink("x", in("a/l")) }, want},
		{"make fifo", func() error { return unix.Mkfifo(in("a/p"), 0o644) }, want},
		{"make socket", func() error { return unix.Mknod(in("a/s"), unix.S_IFSOCK|0o644, 0) }, want},
		{"hard link", func() error { return unix.Link(in("a/file"), in("a/hard")) }, want},
		{"rename", func() error { return unix.Rename(in("b/file"), in("b/moved")) }, want},
		{"remove file", func() error { return unix.Unlink(in("gone")) }, want},
		{"remove directory", func() error { return unix.Rmdir(in("empty")) }, want},
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, side := range []string{p.rw, p.out} {
		if err := errors.Join(os.WriteFile(filepath.Join(side, "gone"), nil, 0o644), os.Mkdir(filepath.Join(side, "empty"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	r := p.rules()
	onThread(t, func() error {
		if _, err := Restrict(r); err != nil {
			return err
		}
		return errors.Join(
			try(changes(p.rw, nil)...), try(changes(p.out, unix.EACCES)...),
			try(
				step{"read outside", open(p.out+"/a/file", unix.O_RDONLY), nil},
				step{"list outside", open(p.out, unix.O_RDONLY|unix.O_DIRECTORY), nil},
				step{"execute", func() error { return exec.Command("/bin/true").Run() }, nil},
				step{"child outside", func() error {
					if exec.Command("/bin/sh", "-c", "echo x > "+p.out+"/a/file").Run() == nil {
						return errors.New("written")
					}
					return nil
				}, nil},
				step{"device node", func() error { return unix.Mknod(p.rw+"/c", unix.S_IFCHR|0o644, 0) }, unix.EACCES},
			))
	})
	// The other threads are as before.
	if err := os.WriteFile(filepath.Join(p.out, "a/file"), []byte("free"), 0o644); err != nil {
		t.Error(err)
	}
}

// TestRefer moves and links between directories.
func TestRefer(t *testing.T) {
	t.Parallel()
	if ABI() < 2 {
		t.Skip("this kernel's Landlock refuses every rename between directories")
	}
	p := newPlace(t)
	r := p.rules()
	onThread(t, func() error {
		if _, err := Restrict(r); err != nil {
			return err
		}
		return try(
			step{"link within", func() error { return unix.Link(p.rw+"/a/file", p.rw+"/b/other") }, nil},
			step{"rename within", func() error { return unix.Rename(p.rw+"/b/other", p.rw+"/a/other") }, nil},
			step{"rename out", func() error { return unix.Rename(p.rw+"/a/file", p.out+"/a/stolen") }, unix.EACCES},
			step{"rename in", func() error { return unix.Rename(p.out+"/a/file", p.rw+"/a/stolen") }, unix.EACCES},
			step{"link in", func() error { return unix.Link(p.out+"/a/file", p.rw+"/a/stolen") }, unix.EXDEV},
		)
	})
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	if ABI() < 3 {
		t.Skip("this kernel's Landlock does not know truncation")
	}
	p := newPlace(t)
	r := p.rules()
	onThread(t, func() error {
		if _, err := Restrict(r); err != nil {
			return err
		}
		return try(
			step{"truncate outside", func() error { return unix.Truncate(p.out+"/a/file", 0) }, unix.EACCES},
			step{"open and truncate outside", open(p.out+"/a/file", unix.O_RDONLY|unix.O_TRUNC), unix.EACCES},
			step{"truncate", func() error { return unix.Truncate(p.rw+"/a/file", 1) }, nil},
			step{"open and truncate", open(p.rw+"/a/file", unix.O_WRONLY|unix.O_TRUNC), nil},
		)
	})
}

// TestProcAndDevices: a program sets its own name, uses devices and makes
// nothing there.
func TestProcAndDevices(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.rules()
	onThread(t, func() error {
		if _, err := Restrict(r); err != nil {
			return err
		}
		return try(
			step{"own name", func() error { return os.WriteFile("/proc/thread-self/comm", []byte("x"), 0) }, nil},
			step{"write to null", open("/dev/null", unix.O_RDWR|unix.O_TRUNC), nil},
			step{"terminals", func() error { return tcgets("/dev/ptmx") }, nil},
			step{"ioctl on null", func() error { return tcgets("/dev/null") }, unix.ENOTTY},
			step{"file in dev", open("/dev/forkcell-test", unix.O_CREAT|unix.O_WRONLY), unix.EACCES},
		)
	})
}

func tcgets(device string) error {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	return err
}

func TestDeviceOutsideDevices(t *testing.T) {
	t.Parallel()
	if ABI() < 5 {
		t.Skip("this kernel's Landlock does not know ioctl on devices")
	}
	p := newPlace(t)
	r := p.rules()
	r.Existing, r.Devices = append(r.Existing, p.open("/dev/null")), nil
	onThread(t, func() error {
		if _, err := Restrict(r); err != nil {
			return err
		}
		return try(
			step{"write to null", open("/dev/null", unix.O_WRONLY), nil},
			step{"write to zero", open("/dev/zero", unix.O_WRONLY), unix.EACCES},
			step{"ioctl on null", func() error { return tcgets("/dev/null") }, unix.EACCES},
		)
	})
}

// TestNested: a program may restrict itself further, and not loosen.
func TestNested(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.rules()
	inner := Ruleset{ReadOnly: []int{p.open("/")}, ReadWrite: []int{p.open(p.rw + "/a"), p.open(p.out)}}
	onThread(t, func() error {
		for _, r := range []Ruleset{r, inner} {
			if _, err := Restrict(r); err != nil {
				return err
			}
		}
		return try(
			step{"both", open(p.rw+"/a/file", unix.O_WRONLY), nil},
			step{"outer only", open(p.rw+"/b/file", unix.O_WRONLY), unix.EACCES},
			step{"inner only", open(p.out+"/a/file", unix.O_WRONLY), unix.EACCES},
			step{"seccomp", func() error {
				_, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
				return no // reaches the copy of its argument
			}, unix.EFAULT},
		)
	})
}

// TestOlderKernels takes rights away, one ABI at a time.
func TestOlderKernels(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	scoped := []string{"scope_abstract_unix_socket", "scope_signal"}
	missing := map[int][]string{
		1: append([]string{"refer", "truncate", "ioctl_dev"}, scoped...),
		2: append([]string{"truncate", "ioctl_dev"}, scoped...),
		3: append([]string{"ioctl_dev"}, scoped...),
		4: append([]string{"ioctl_dev"}, scoped...),
		5: scoped,
	}
	r := p.rules()
	for abi := 1; abi <= min(ABI(), newest); abi++ {
		onThread(t, func() error {
			r := r
			r.MaxABI = abi
			a, err := Restrict(r)
			if err != nil {
				return err
			}
			if a.ABI != abi || !cmp.Equal(a.Missing(), missing[abi]) {
				return fmt.Errorf("ABI %d: %d, missing %q", abi, a.ABI, a.Missing())
			}
			all := append(a.Rights(), a.Missing()...)
			slices.Sort(all)
			if len(slices.Compact(all)) != len(fileRights)+len(scopes) {
				return fmt.Errorf("ABI %d: rights %q", abi, all)
			}
			// Without refer the kernel refuses all of it.
			var refer error
			if abi < 2 {
				refer = unix.EXDEV
			}
			return try(
				step{"write", open(p.rw+"/a/file", unix.O_WRONLY), nil},
				step{"write outside", open(p.out+"/a/file", unix.O_WRONLY), unix.EACCES},
				step{"link", func() error { return unix.Link(p.rw+"/a/file", fmt.Sprintf("%s/b/%d", p.rw, abi)) }, refer},
			)
		})
	}
}

func TestWithoutScope(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.rules()
	r.Scope, r.Log = false, true
	onThread(t, func() error {
		a, err := Restrict(r)
		if err != nil {
			return err
		}
		if slices.Contains(a.Rights(), "scope_signal") || slices.Contains(a.Missing(), "scope_signal") {
			return fmt.Errorf("scope: %q, missing %q", a.Rights(), a.Missing())
		}
		return nil
	})
}

func TestBadDescriptors(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good := p.open("/")
	onThread(t, func() error {
		if _, err := Restrict(Ruleset{ReadOnly: []int{good, -1}}); !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("no descriptor: %w", err)
		}
		// Nothing was restricted by the failure.
		return try(step{"write", open(p.out+"/a/file", unix.O_WRONLY), nil})
	})
}

// BenchmarkRestrict reports the median: the kernel's part varies with its load.
func BenchmarkRestrict(b *testing.B) {
	p := newPlace(b)
	r := p.rules()
	r.ReadWrite = append(r.ReadWrite, p.open(p.out), p.open("/tmp"), p.open("/dev/shm"))
	var times []time.Duration
	for range b.N {
		onThread(b, func() error {
			start := time.Now()
			_, err := Restrict(r)
			times = append(times, time.Since(start))
			return err
		})
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "p50-ns")
}
