package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where things are in the machine.
const (
	workPath    = "/compat" // the second disk
	binPath     = workPath + "/bin"
	repoPath    = workPath + "/repo"
	planPath    = workPath + "/plan.json"
	programPath = binPath + "/forkcell"
	userHome    = "/home/" + account
)

// account is the machine's ordinary user.
const (
	account   = "forkcell-test"
	accountID = 1001
)

// layout changes whenever the system disk would be put together differently.
const layout = 2

// system is the Debian part of a machine. It is made once and kept in the cache.
type system struct {
	kernel  pkg
	image   string // the kernel
	modules string // a directory of *.ko files
	disk    string // ext4, with the userland; never written to
}

func prepareSystem(ctx context.Context, cache string, o options) (*system, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	p, err := fetch(ctx, cache, o)
	if err != nil {
		return nil, err
	}
	fmt.Printf("kernel     %s\nchecksum   sha256:%s\n", p.Kernel.File, p.Kernel.SHA256)
	key, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, fmt.Sprintf("system-%d-%.16x", layout, sha256.Sum256(key)))
	s := &system{kernel: p.Kernel, image: filepath.Join(dir, "vmlinuz"), modules: filepath.Join(dir, "modules"), disk: filepath.Join(dir, "system.ext4")}
	if _, err := os.Stat(dir); err == nil {
		return s, nil
	}
	if err := removeOld(cache); err != nil {
		return nil, err
	}
	// Under its own name only when it is whole.
	tmp, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := makeSystem(ctx, filepath.Join(cache, "debs"), tmp, p); err != nil {
		return nil, err
	}
	return s, os.Rename(tmp, dir)
}

// removeOld removes systems of other packages than the present ones.
func removeOld(cache string) error {
	var errs []error
	for _, pattern := range []string{"system-*", "new-*"} {
		old, err := filepath.Glob(filepath.Join(cache, pattern))
		errs = append(errs, err)
		for _, dir := range old {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

func makeSystem(ctx context.Context, debs, dir string, p packages) error {
	kernel, root := filepath.Join(dir, "kernel"), filepath.Join(dir, "root")
	if err := errors.Join(os.Mkdir(kernel, 0o755), makeRoot(root)); err != nil {
		return err
	}
	if err := unpack(ctx, filepath.Join(debs, p.Kernel.File), kernel); err != nil {
		return err
	}
	image, err := one(filepath.Join(kernel, "boot/vmlinuz-"+wantKernel+"*"))
	if err != nil {
		return err
	}
	modules, err := one(filepath.Join(kernel, "lib/modules", wantKernel+"*"))
	if err != nil {
		return err
	}
	if err := errors.Join(os.Rename(image, filepath.Join(dir, "vmlinuz")), os.Rename(modules, filepath.Join(dir, "modules"))); err != nil {
		return err
	}
	for _, one := range p.Userland {
		// Nobody reads here.
		if err := unpack(ctx, filepath.Join(debs, one.File), root,
			"--exclude=./usr/share/doc/*", "--exclude=./usr/share/man/*", "--exclude=./usr/share/locale/*"); err != nil {
			return err
		}
	}
	if err := configure(root); err != nil {
		return err
	}
	if err := makeImage(ctx, filepath.Join(dir, "system.ext4"), root, "4G"); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(kernel), os.RemoveAll(root))
}

// one is the only file that fits a pattern.
func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d files fit %s", len(found), pattern)
	}
	return found[0], nil
}

// makeRoot makes the directories and links that exist before any package does.
func makeRoot(root string) error {
	for _, dir := range []string{
		"usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "usr/lib32", "usr/libx32", "boot", "dev", "etc", "media", "mnt", "opt",
		"proc", "root", "run", "srv", "sys", "tmp", "var/tmp", userHome, workPath,
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64", "lib32", "libx32"} {
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// configure does what the packages' own scripts would do, as far as a test can
// notice.
func configure(root string) error {
	users, err := os.ReadFile(filepath.Join(root, "usr/share/base-passwd/passwd.master"))
	if err != nil {
		return err
	}
	groups, err := os.ReadFile(filepath.Join(root, "usr/share/base-passwd/group.master"))
	if err != nil {
		return err
	}
	switching, err := os.ReadFile(filepath.Join(root, "usr/share/libc-bin/nsswitch.conf"))
	if err != nil {
		return err
	}
	// The masters have a star where a password would be; there are no logins here.
	files := map[string]string{
		"etc/passwd":        string(users) + fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", account, accountID, accountID, userHome),
		"etc/group":         string(groups) + fmt.Sprintf("%s:x:%d:\n", account, accountID),
		"etc/nsswitch.conf": string(switching),
		"etc/hostname":      "compat\n",
		"etc/hosts":         "127.0.0.1 localhost compat\n::1 localhost\n",
		"etc/resolv.conf":   "",
		"etc/fstab":         "",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	// Alternatives, of which there is one.
	for name, target := range map[string]string{"usr/bin/awk": "mawk", "bin/sh": "dash"} {
		err := os.Symlink(target, filepath.Join(root, name))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for _, dir := range []string{"tmp", "var/tmp"} {
		if err := os.Chmod(filepath.Join(root, dir), 0o777|os.ModeSticky); err != nil {
			return err
		}
	}
	if !strings.Contains(string(users), "root:") {
		return errors.New("base-passwd has no root")
	}
	return nil
}
