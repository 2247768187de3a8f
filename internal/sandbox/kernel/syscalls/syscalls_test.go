package syscalls

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTableIsTheKernels compares with constants that the compiler took from
// another place than the table.
func TestTableIsTheKernels(t *testing.T) {
	t.Parallel()
	all := constants()
	for name, want := range all {
		if got, ok := Number(native, name); !ok || got != want {
			t.Errorf("Number(%s) = %d, %v; want %d", name, got, ok, want)
		}
		if got, ok := Name(native, want); !ok || got != name {
			t.Errorf("Name(%d) = %s, %v; want %s", want, got, ok, name)
		}
	}
	for _, name := range Names() {
		if _, ok := Number(native, name); !ok {
			continue
		}
		if _, ok := all[name]; !ok {
			t.Errorf("%s is in the table only", name)
		}
	}
}

func TestTableAgreesWithItself(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(table) {
		if len(line) != lineWidth || line[nameWidth-1] != ' ' {
			t.Errorf("a line does not keep to the columns: %q", line)
		}
	}
	names := Names()
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("the names are not sorted or not unique")
	}
	for _, arch := range Arches() {
		count := 0
		for n := -1; n <= Last(arch)+1; n++ {
			name, ok := Name(arch, n)
			if !ok {
				continue
			}
			count++
			if back, ok := Number(arch, name); !ok || back != n {
				t.Errorf("%s: %s is %d and %d", arch, name, n, back)
			}
		}
		for _, name := range names {
			if _, ok := Number(arch, name); ok {
				count--
			}
			if !Known(name) {
				t.Errorf("%s is not known", name)
			}
		}
		if count != 0 {
			t.Errorf("%s: names and numbers differ by %d", arch, count)
		}
		if _, ok := Name(arch, Last(arch)); !ok {
			t.Errorf("%s: the last number has no name", arch)
		}
		if got, ok := ParseArch(arch.String()); !ok || got != arch {
			t.Errorf("ParseArch(%s) = %v, %v", arch, got, ok)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "MOUNT", "mount ", "mount2", "socketcall", "zzz"} {
		if Known(name) {
			t.Errorf("%q is known", name)
		}
		if _, ok := Denied(name); ok {
			t.Errorf("%q is denied", name)
		}
	}
	if _, ok := Number(ARM64, "fork"); ok || !Known("fork") {
		t.Error("fork is a call of amd64 only")
	}
	if _, ok := ParseArch("riscv64"); ok {
		t.Error("riscv64 is taken for an architecture of cells")
	}
}

func TestRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	list := Rules()
	if !slices.IsSortedFunc(list, func(a, b Rule) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the rules are not sorted by name")
	}
	for _, r := range list {
		if !Known(r.Name) {
			t.Errorf("%s: no such call", r.Name)
		}
		if r.Group == "" || r.Reason == "" {
			t.Errorf("%s: no group or reason", r.Name)
		}
		if got, ok := Denied(r.Name); !ok || got != r {
			t.Errorf("Denied(%s) = %v, %v", r.Name, got, ok)
		}
		// A caller that gets ENOSYS uses another call: no event.
		if r.Action == ENOSYS && r.Rare {
			t.Errorf("%s: not there, and an event", r.Name)
		}
	}
}

// TestLiveRules: they are sorted, known, and cover every call that takes a mode
// of a file, but for mkdir, of which the kernel drops those bits.
func TestLiveRules(t *testing.T) {
	t.Parallel()
	var names []string
	for _, r := range LiveRules() {
		if !Known(r.Name) || r.Reason == "" || r.Action != ENOSYS && r.Args == "" {
			t.Errorf("%+v", r)
		}
		names = append(names, r.Name)
	}
	want := strings.Fields("chmod creat fchmod fchmodat fchmodat2 mknod mknodat open openat openat2 renameat2")
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

// TestHeldRules: they are sorted and known.
func TestHeldRules(t *testing.T) {
	t.Parallel()
	var names []string
	for _, r := range HeldRules() {
		if !Known(r.Name) || r.Reason == "" || r.Rare {
			t.Errorf("%+v", r)
		}
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"clone", "clone3", "fcntl", "timer_create"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestDenySet holds the promise of the policy language, group by group.
func TestDenySet(t *testing.T) {
	t.Parallel()
	var partly, absent []string
	for _, r := range Rules() {
		if r.Args != "" {
			partly = append(partly, r.Name)
		}
		if r.Action == ENOSYS {
			absent = append(absent, r.Name)
		}
	}
	if diff := cmp.Diff([]string{"clone", "ioctl", "personality", "renameat2", "socket", "socketpair", "unshare"}, partly); diff != "" {
		t.Errorf("denied in part (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"clone3"}, absent); diff != "" {
		t.Errorf("absent (-want +got):\n%s", diff)
	}
	for _, names := range []string{
		"init_module finit_module delete_module",
		"kexec_load kexec_file_load",
		"bpf perf_event_open",
		"mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr statmount listmount",
		"setns", "add_key request_key keyctl", "userfaultfd",
		"io_uring_setup io_uring_enter io_uring_register",
		"clock_settime settimeofday adjtimex clock_adjtime",
		"swapon swapoff", "reboot", "quotactl quotactl_fd", "acct",
		"open_by_handle_at name_to_handle_at",
		"syslog vhangup iopl ioperm lookup_dcookie nfsservctl modify_ldt",
	} {
		for _, name := range strings.Fields(names) {
			if r, ok := Denied(name); !ok || r.Args != "" {
				t.Errorf("%s is not denied as a whole", name)
			}
		}
	}
	// Debuggers, profilers, runtimes and sandboxes within the cell need these.
	for _, name := range strings.Fields("ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise " +
		"seccomp prctl landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_create mbind set_mempolicy " +
		"fork vfork rseq membarrier arch_prctl inotify_init1 fanotify_init mknodat setuid uretprobe") {
		if _, ok := Denied(name); ok || !Known(name) {
			t.Errorf("%s is denied or not known", name)
		}
	}
}
