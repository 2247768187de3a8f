package native

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// A coverLayer is between the changes of a cell and a directory of the host's
// system. Files there that only root may read are closed to the cell: see
// hostLayers. The layer hides those that exist when the cell starts behind
// whiteouts, so that a package manager can replace them. In /etc the layer also
// has the cell's own files.
type coverLayer struct {
	root int    // the layer's top directory, on a file system in memory
	host string // the directory that it lies over
	own  map[string]string
	made map[string]bool // what the layer has
	// owner of all of it; 0 stands for the host's owners, and the cell's root for
	// files of its own.
	owner int
}

// maxCovered bounds the whiteouts; a host with more is not one to show this way.
const maxCovered = 100_000

// newCoverLayer makes the layer over host, which is below o.
func newCoverLayer(host string, o *mount.Overlay, p *hostPlan) (int, error) {
	fd, err := mountfd.NewFS("tmpfs", mountfd.AttrHost, mountfd.Option{Key: "mode", Value: "0755"})
	if err != nil {
		return -1, err
	}
	v := &coverLayer{root: fd, host: host, made: map[string]bool{".": true}, own: map[string]string{}}
	if err := v.fill(o, p); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("cover layer over %s: %w", host, err)
	}
	return fd, nil
}

// newOwnEtc makes a layer that has the cell's own files of /etc as far as they are
// below target, which a policy makes writable: host is not to be seen through them.
// It returns -1 if there are none.
func newOwnEtc(host, target string, p *hostPlan) (int, error) {
	v := &coverLayer{host: host, made: map[string]bool{".": true}, own: map[string]string{}, owner: idBase + sandboxID}
	add := func(name, text string) {
		if rel, below := strings.CutPrefix("/etc/"+name, target+"/"); below {
			v.own[rel] = text
		}
	}
	for _, f := range cellinit.EtcFiles(p.ID, p.Hostname, p.Capture) {
		add(f.Name, f.Text)
	}
	for _, f := range p.files {
		add(f.Name, string(f.Data))
	}
	if len(v.own) == 0 {
		return -1, nil
	}
	var err error
	if v.root, err = mountfd.NewFS("tmpfs", mountfd.AttrHost, mountfd.Option{Key: "mode", Value: "0755"}); err != nil {
		return -1, err
	}
	err = v.like(".")
	for name, text := range v.own {
		err = errors.Join(err, v.write(name, text))
	}
	if err != nil {
		_ = unix.Close(v.root)
		return -1, fmt.Errorf("own files in %s: %w", target, err)
	}
	return v.root, nil
}

func (v *coverLayer) fill(o *mount.Overlay, p *hostPlan) error {
	if err := v.like("."); err != nil {
		return err
	}
	if o.Bare {
		return v.skeleton(o.Target, p)
	}
	if o.Target == "/etc" {
		if err := v.ownEtc(p); err != nil {
			return err
		}
	}
	if err := v.cover("."); err != nil {
		return err
	}
	for name, text := range v.own {
		if err := v.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// skeleton makes what is shown of a bare directory, and the places of what else
// is attached below it.
func (v *coverLayer) skeleton(target string, p *hostPlan) error {
	entries, err := os.ReadDir(v.host)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.IsDir():
			err = v.dirs(e.Name())
		case e.Type()&os.ModeSymlink != 0:
			err = v.link(e.Name())
		}
		if err != nil {
			return err
		}
	}
	for _, o := range p.Overlays {
		if rel, below := strings.CutPrefix(string(o.Target), target+"/"); below {
			if err := v.dirs(rel); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *coverLayer) link(name string) error {
	to, err := os.Readlink(filepath.Join(v.host, name))
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(to, v.root, name); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return unix.Fchownat(v.root, name, idBase, idBase, unix.AT_SYMLINK_NOFOLLOW)
}

// ownEtc lists the files of /etc that are the cell's own.
func (v *coverLayer) ownEtc(p *hostPlan) error {
	for _, f := range append(cellinit.EtcFiles(p.ID, p.Hostname, p.Capture), secretFiles()...) {
		v.own[f.Name] = f.Text
	}
	for _, f := range p.files {
		v.own[f.Name] = string(f.Data)
	}
	for _, name := range []string{"passwd", "group"} {
		if err := v.addSystem(name, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// addSystem adds the system's own accounts, which own files that the cell sees
// and which packages look for. Those of people stay out.
func (v *coverLayer) addSystem(name string, id protocol.Identity) error {
	text, err := os.ReadFile(filepath.Join(v.host, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	own := v.own[name]
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 3 || strings.Contains("\n"+own, "\n"+f[0]+":") {
			continue
		}
		if n, err := strconv.Atoi(f[2]); err != nil || n >= firstPerson || n == id.UID {
			continue
		}
		own += strings.TrimSpace(line) + "\n"
	}
	v.own[name] = own
	return nil
}

// firstPerson is from where on numbers belong to people.
const firstPerson = 1000

// secretFiles are in place of the host's, which hold password hashes: package
// scripts add their users to them.
func secretFiles() []cellinit.EtcFile {
	return []cellinit.EtcFile{
		{Name: "shadow", Text: "root:*:19000:0:99999:7:::\nsandbox:*:19000:0:99999:7:::\n"},
		{Name: "gshadow", Text: "root:*::\nsandbox:!::\n"},
	}
}

// cover looks at a directory of the host and hides what others may not read.
func (v *coverLayer) cover(dir string) error {
	hidden, err := listUnreadable(v.host)
	if err != nil {
		return err
	}
	for _, rel := range hidden {
		if _, mine := v.own[rel]; mine {
			continue
		}
		if err := v.hide(path.Join(dir, rel)); err != nil {
			return err
		}
	}
	return nil
}

// hide makes a whiteout.
func (v *coverLayer) hide(rel string) error {
	if err := v.dirs(path.Dir(rel)); err != nil {
		return err
	}
	if len(v.made) > maxCovered {
		return errors.New("it holds too much that only root may read")
	}
	v.made[rel] = true
	if err := unix.Mknodat(v.root, rel, unix.S_IFCHR, 0); err != nil {
		return fmt.Errorf("hide %s: %w", rel, err)
	}
	return nil
}

// dirs makes a directory and those above it. An overlay takes a directory's
// metadata from its topmost layer, so they are the host's.
func (v *coverLayer) dirs(rel string) error {
	if v.made[rel] {
		return nil
	}
	if err := v.dirs(path.Dir(rel)); err != nil {
		return err
	}
	if err := unix.Mkdirat(v.root, rel, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", rel, err)
	}
	v.made[rel] = true
	return v.like(rel)
}

// like gives a directory of the layer the metadata of the host's. The owners are
// the cell's already, since a file system in memory has no map on every kernel.
func (v *coverLayer) like(rel string) error {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(v.host, rel), &st); errors.Is(err, unix.ENOENT) {
		st.Mode = 0o755 // a directory of the layer itself
	} else if err != nil {
		return err
	}
	uid, gid := cellID(st.Uid), cellID(st.Gid)
	if v.owner != 0 {
		uid, gid = v.owner, v.owner
	}
	if err := unix.Fchownat(v.root, rel, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("owner of %s: %w", rel, err)
	}
	if err := unix.Fchmodat(v.root, rel, st.Mode&0o7777, 0); err != nil {
		return fmt.Errorf("mode of %s: %w", rel, err)
	}
	return unix.UtimesNanoAt(v.root, rel, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// cellID is where a host id is in the range of a root caller's cells.
func cellID(id uint32) int {
	if id >= idCount {
		return idBase + idCount - 1
	}
	return idBase + int(id)
}

func (v *coverLayer) write(name, text string) error {
	if err := v.dirs(path.Dir(name)); err != nil {
		return err
	}
	if err := mountfd.WriteFile(v.root, name, text); err != nil {
		return fmt.Errorf("own file %s: %w", name, err)
	}
	mode := uint32(0o644)
	if strings.HasSuffix(name, "shadow") {
		mode = 0o640
	}
	owner := cmp.Or(v.owner, idBase)
	return errors.Join(
		unix.Fchownat(v.root, name, owner, owner, unix.AT_SYMLINK_NOFOLLOW),
		unix.Fchmodat(v.root, name, mode, 0))
}
