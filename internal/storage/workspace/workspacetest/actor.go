package workspacetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// The actor is this binary, started again in its own mount namespace (and, for
// an ordinary user, in a user namespace). It takes the place of a cell: it
// mounts the overlays, changes files by plain system calls, and reports what it
// sees. It shares no code with package workspace.
const actorName = "workspace-actor"

// Act is one thing that is done to a file. Paths are bytes: JSON would change
// names that are not UTF-8.
type Act struct {
	// Do is "write", "append", "sparse", "mkdir", "rm", "symlink", "link", "mv", "fifo",
	// "sock", "null", "chmod", "chown", "mtime" or "xattr".
	Do   string
	Path []byte
	// To is the other path, or the name of the attribute.
	To   []byte
	Data []byte
	// N and M are a mode, an owner and a group, seconds and nanoseconds, or the lengths of
	// the holes before and after the data.
	N, M int64
}

// Mount is an overlay that the actor mounts.
type Mount struct {
	Target, Upper, Work string
	Lower               []string
}

// Job is what the actor does: it mounts, changes files in Dir, and walks it.
type Job struct {
	Mounts []Mount
	User   bool // set by Play: the actor is an ordinary user
	Dir    string
	Acts   []Act
	Loose  bool // acts may fail
}

// Item is what the independent walker says of one path.
type Item struct {
	Path []byte
	Text string // everything that is compared
	Sum  string
	Link int // the number of its hard-link group, 0 if none

	Sec, Nsec int64
}

const unknownLink = -1

func actorMain() int {
	var job Job
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		return 1
	}
	items, err := job.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(items); err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		return 1
	}
	return 0
}

func (j Job) run() ([]Item, error) {
	syscall.Umask(0o022)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range j.Mounts {
		opts := "lowerdir=" + strings.Join(m.Lower, ":") + ",upperdir=" + m.Upper + ",workdir=" + m.Work +
			",redirect_dir=nofollow,metacopy=off,index=off"
		if j.User {
			opts += ",userxattr"
		}
		if err := unix.Mount("overlay", m.Target, "overlay", 0, opts); err != nil {
			return nil, fmt.Errorf("mount overlay: %w", err)
		}
	}
	for _, a := range j.Acts {
		if err := a.do(j.Dir); err != nil && !j.Loose {
			return nil, fmt.Errorf("%s %q: %w", a.Do, a.Path, err)
		}
	}
	return walk(j.Dir, j.User)
}

func (a Act) do(dir string) error {
	p := dir + "/" + string(a.Path)
	to := dir + "/" + string(a.To)
	switch a.Do {
	case "write":
		return writeTo(p, os.O_CREATE|os.O_TRUNC, a.Data)
	case "append":
		return writeTo(p, os.O_APPEND, a.Data)
	case "sparse": // a hole of N bytes, then data, then a hole of M bytes
		f, err := os.OpenFile(p, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NONBLOCK, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteAt(a.Data, a.N); err != nil {
			return err
		}
		return f.Truncate(a.N + int64(len(a.Data)) + a.M)
	case "mkdir":
		return os.Mkdir(p, 0o755)
	case "rm": // os.RemoveAll would wait for the writer of a FIFO above the path
		return tool("rm", "-rf", "--", p)
	case "symlink":
		return os.Symlink(string(a.To), p)
	case "link":
		return unix.Linkat(unix.AT_FDCWD, to, unix.AT_FDCWD, p, 0)
	case "mv": // copies where the kernel will not rename
		return tool("mv", "-T", "--", p, to)
	case "fifo":
		return unix.Mknod(p, unix.S_IFIFO|0o640, 0)
	case "sock":
		return unix.Mknod(p, unix.S_IFSOCK|0o700, 0)
	case "null":
		return unix.Mknod(p, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	case "chmod":
		return unix.Chmod(p, uint32(a.N))
	case "chown":
		return os.Lchown(p, int(a.N), int(a.M))
	case "mtime":
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: a.N, Nsec: a.M}}
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, times, unix.AT_SYMLINK_NOFOLLOW)
	case "xattr":
		return unix.Lsetxattr(p, string(a.To), a.Data, 0)
	}
	return fmt.Errorf("unknown act")
}

func tool(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// writeTo never waits for the reader of a FIFO.
func writeTo(path string, flags int, data []byte) error {
	f, err := os.OpenFile(path, flags|os.O_WRONLY|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(data)
	return err
}

// walk is the independent walker.
func walk(root string, user bool) ([]Item, error) {
	var items []Item
	groups := map[[2]uint64][]int{}
	var visit func(p, rel string) error
	visit = func(p, rel string) error {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		it := Item{Path: []byte(rel), Sec: st.Mtim.Sec, Nsec: st.Mtim.Nsec}
		var target string
		size := int64(0)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			it.Sum = fmt.Sprintf("%x", sha256.Sum256(data))
			size = st.Size
		case unix.S_IFLNK:
			var err error
			if target, err = os.Readlink(p); err != nil {
				return err
			}
		}
		owner := fmt.Sprintf("%d:%d", st.Uid, st.Gid)
		if user {
			owner = "-"
		}
		attrs, err := attrsOf(p)
		if err != nil {
			return err
		}
		it.Text = fmt.Sprintf("mode=%o owner=%s size=%d mtime=%d.%09d target=%q attrs=%q",
			st.Mode, owner, size, st.Mtim.Sec, st.Mtim.Nsec, target, attrs)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
			key := [2]uint64{st.Dev, st.Ino}
			groups[key] = append(groups[key], len(items))
		}
		items = append(items, it)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		list, err := os.ReadDir(p)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := visit(p+"/"+e.Name(), strings.TrimPrefix(rel+"/"+e.Name(), "./")); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(root, "."); err != nil {
		return nil, err
	}
	n := 0
	for i := range items { // number the groups in the order of their first names
		for _, g := range groups {
			if len(g) > 1 && g[0] == i {
				n++
				for _, k := range g {
					items[k].Link = n
				}
			}
		}
	}
	return items, nil
}

func attrsOf(p string) ([]string, error) {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(p, buf)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl") || strings.Contains(name, ".overlay.") {
			continue
		}
		v := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(p, name, v)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("%s=%x", name, v[:n]))
	}
	sort.Strings(out)
	return out, nil
}

// inNamespaces starts this binary again in its own namespaces.
func inNamespaces(t testing.TB, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{name}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

// Play lets the actor work and returns what it saw at the end.
func Play(t testing.TB, job Job) []Item {
	t.Helper()
	items, err := tryPlay(t, job)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func tryPlay(t testing.TB, job Job) ([]Item, error) {
	t.Helper()
	job.User = os.Geteuid() != 0
	in, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	cmd := inNamespaces(t, actorName)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errOut
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("actor: %w: %s", err, errOut.String())
	}
	var items []Item
	return items, json.Unmarshal(out.Bytes(), &items)
}

// See returns the present contents of a directory.
func See(t testing.TB, dir string) []Item {
	t.Helper()
	return Play(t, Job{Dir: dir})
}

// SameItems compares two views and names the paths that differ.
func SameItems(t testing.TB, what string, want, got []Item) {
	t.Helper()
	if d := diffItems(want, got); len(d) > 0 {
		t.Errorf("%s: %d paths differ:\n%s", what, len(d), strings.Join(d[:min(len(d), 20)], "\n"))
	}
}

func diffItems(want, got []Item) []string {
	unsure := func(list []Item) bool { return len(list) > 0 && list[0].Link == unknownLink }
	loose := unsure(want) || unsure(got)
	m := map[string][2]string{}
	for i, list := range [][]Item{want, got} {
		for _, it := range list {
			v := m[string(it.Path)]
			if loose {
				it.Link = unknownLink
			}
			v[i] = fmt.Sprintf("%s sum=%.8s link=%d", it.Text, it.Sum, it.Link)
			m[string(it.Path)] = v
		}
	}
	var out []string
	for p, v := range m {
		if v[0] != v[1] {
			out = append(out, fmt.Sprintf("  %q\n    want %s\n    got  %s", p, v[0], v[1]))
		}
	}
	slices.Sort(out)
	return out
}

// TempDir is a directory that can be removed again whatever is in it.
func TempDir(t testing.TB) string { return TempDirIn(t, "") }

// TempDirIn is such a directory in a parent, which is the usual one if it is "".
func TempDirIn(t testing.TB, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "workspace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		parent, err := fsx.OpenRoot(filepath.Dir(dir))
		if err != nil {
			t.Error(err)
			return
		}
		defer parent.Close()
		if err := parent.RemoveAll(filepath.Base(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}
