package cellinit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// EtcFile is one of the files in /etc that are the cell's own.
type EtcFile struct{ Name, Text string }

// EtcFiles returns the files in /etc that are the cell's own.
func EtcFiles(id protocol.Identity, hostname string, captured bool) []EtcFile {
	shell, root, sandbox := "/usr/sbin/nologin", "root", fullName(id.FullName, "sandbox")
	if id.Super {
		shell, root = "/bin/sh", fullName(id.FullName, "root")
	}
	passwd := "root:x:0:0:" + root + ":/root:" + shell + "\n"
	group := "root:x:0:\n"
	if id.UID != 65534 {
		passwd += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	}
	if id.GID != 65534 {
		group += "nogroup:x:65534:\n"
	}
	passwd += fmt.Sprintf("sandbox:x:%d:%d:%s:/home/sandbox:/bin/sh\n", id.UID, id.GID, sandbox)
	if id.GID != 0 {
		group += fmt.Sprintf("sandbox:x:%d:\n", id.GID)
	}
	return []EtcFile{
		{"passwd", passwd},
		{"group", group},
		{"hostname", hostname + "\n"},
		{"machine-id", machineID(hostname)},
		{"hosts", "127.0.0.1 localhost " + hostname + "\n::1 localhost ip6-localhost ip6-loopback\n"},
		{"resolv.conf", resolvConf(captured)},
		{"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: " + hostSources(captured) + "\nnetworks: files\n" +
			"protocols: files\nservices: files\nethers: files\nrpc: files\n"},
	}
}

// machineID returns an id of 128 bits for a cell. It reveals nothing of the host, and is
// the same whenever the cell runs.
func machineID(hostname string) string {
	h := fnv.New128a()
	_, _ = io.WriteString(h, "forkcell machine-id\x00"+hostname) // it never fails
	return hex.EncodeToString(h.Sum(nil)) + "\n"
}

// fullName is a name as the list of accounts can hold it: in one field of one
// line, of which others read what is before a comma, and take & for the login.
func fullName(name, otherwise string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if strings.ContainsRune(":,&", r) || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	if name == "" || len(name) > 200 {
		return otherwise
	}
	return name
}

// hostSources returns where names of hosts are looked up. Without a network there
// is no name server. That alone would be a temporary failure, which programs try
// again for minutes. The files are asked last, so a name that they do not have does
// not exist; the question to the name server is there to be counted.
func hostSources(captured bool) string {
	if !captured {
		return "files dns files"
	}
	return "files dns"
}

func resolvConf(captured bool) string {
	if !captured {
		return "# This cell has no network.\n"
	}
	return "nameserver " + capture.Resolver4 + "\noptions edns0\n"
}

// etc shows the host's /etc with the cell's own files in it. A read-only
// overlay does that whatever the host has under those names: nothing, or links
// into directories that the cell does not have.
func (r *rootfs) etc() error {
	files := EtcFiles(r.plan.ID, r.plan.Hostname, r.plan.Capture)
	if r.without.Has(control.OwnEtc) {
		files = nil
	}
	dir, err := r.ownEtc(files)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if r.plan.HasOverlay("/etc") {
		return nil // it has them between the host's and the cell's changes
	}
	host, err := r.hostEtc()
	if err != nil {
		return err
	}
	if host == r.empty {
		if err := r.places(dir); err != nil {
			return err
		}
	}
	fd, err := r.readOnlyUnion(dir, host)
	if err != nil {
		r.degraded = append(r.degraded, fmt.Sprintf("/etc: no overlay (%v); the cell's own files are bound over the host's one by one", err))
		return r.etcBinds(files)
	}
	return r.attach(fd, "/etc")
}

// ownEtc makes the cell's own files in the stage.
func (r *rootfs) ownEtc(files []EtcFile) (dir int, err error) {
	if err := unix.Mkdirat(r.stage, stagedEtc, 0o755); err != nil {
		return -1, fmt.Errorf("make own files: %w", err)
	}
	if dir, err = mountfd.OpenDir(r.stage, stagedEtc); err != nil {
		return -1, err
	}
	for _, f := range files {
		if err == nil {
			err = mountfd.WriteFile(dir, f.Name, f.Text)
		}
		if err != nil {
			_ = unix.Close(dir)
			return -1, fmt.Errorf("make own %s: %w", f.Name, err)
		}
	}
	if err := r.ownFiles(dir); err != nil {
		_ = unix.Close(dir)
		return -1, err
	}
	return dir, nil
}

// stagedEtc is where the cell's own files of /etc are in the stage.
const stagedEtc = "etc"

// ownBelow returns where the stage has the cell's own files for a directory of
// the cell, or "".
func (r *rootfs) ownBelow(target string) string {
	rel, below := strings.CutPrefix(target+"/", "/etc/")
	staged := strings.TrimSuffix(stagedEtc+"/"+rel, "/")
	var st unix.Stat_t
	if !below || unix.Fstatat(r.stage, staged, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return ""
	}
	return staged
}

// hostEtc is the system's /etc, or nothing where the plan does not list it.
func (r *rootfs) hostEtc() (int, error) {
	listed := slices.ContainsFunc(r.plan.System, func(p []byte) bool { return string(p) == "/etc" })
	if r.plan.OwnSystem && !listed {
		return r.empty, nil
	}
	fd, err := unix.Openat(r.host, "etc", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return r.empty, nil
	}
	if err != nil {
		return -1, fmt.Errorf("open /etc: %w", err)
	}
	return fd, nil
}

// places makes the mount points of listed paths below an /etc that is not listed
// itself, and the links among them: later it cannot be written to.
func (r *rootfs) places(own int) error {
	for _, p := range r.plan.System {
		rel, below := strings.CutPrefix(string(p), "/etc/")
		if !below {
			continue
		}
		for i, c := range rel {
			if c != '/' {
				continue
			}
			if err := unix.Mkdirat(own, rel[:i], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("make place of %s: %w", p, err)
			}
		}
		if err := r.place(own, rel); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make place of %s: %w", p, err)
		}
	}
	return nil
}

func (r *rootfs) place(own int, rel string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(r.host, "etc/"+rel, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.Mkdirat(own, rel, 0o755)
	case unix.S_IFLNK:
		return copyLink(r.host, "etc/"+rel, own, rel)
	}
	return unix.Mknodat(own, rel, unix.S_IFREG|0o444, 0)
}

// etcBinds is the fallback, for one where the host's /etc has mounts in it, as in a
// container: the host's /etc, with the cell's files over those that it has as plain
// files, the trust stores of the cell's network included. The rest of them must do
// without.
func (r *rootfs) etcBinds(files []EtcFile) error {
	host, err := mountfd.CloneTree(r.host, "etc", mountfd.AttrSystem, -1)
	if err != nil {
		return err
	}
	if err := r.attach(host, "/etc"); err != nil {
		return err
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	for _, f := range r.plan.Files {
		names = append(names, f.Name)
	}
	for _, name := range names {
		fd, err := mountfd.CloneTree(r.stage, "etc/"+name, mountfd.AttrSystem, -1)
		if err != nil {
			return err
		}
		err = mountfd.MoveTo(fd, r.root, "etc/"+name)
		_ = unix.Close(fd)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err != nil {
			r.degraded = append(r.degraded, fmt.Sprintf("/etc/%s is not the cell's own", name))
		}
	}
	return nil
}
