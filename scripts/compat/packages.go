package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	suite       = "bookworm" // the Debian release with Linux 6.1
	kernelMeta  = "linux-image-cloud-amd64"
	kernelStart = "linux-image-" + wantKernel
	keyring     = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// userland returns the packages that the tests call, and what those need.
func userland() []string {
	return []string{
		"acl", "attr", "base-files", "base-passwd", "bash", "coreutils", "curl", "dash", "diffutils", "findutils", "git", "grep", "gzip",
		"hostname", "libc-bin", "mawk", "mount", "openssl", "procps", "python3", "sed", "tar", "util-linux",
	}
}

// pkg is a fetched package.
type pkg struct {
	File   string
	SHA256 string
}

// packages are the parts of a machine, as the cache remembers them.
type packages struct {
	Kernel   pkg
	Userland []pkg
}

// fetch returns the packages, from the cache if it has them all.
func fetch(ctx context.Context, cache string, o options) (packages, error) {
	list := filepath.Join(cache, "packages.json")
	debs := filepath.Join(cache, "debs")
	if !o.refresh {
		if p, err := checkPackages(list, debs); err == nil {
			return p, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			fmt.Printf("the cache is fetched again: %v\n", err)
		}
	}
	a, err := newApt(ctx, cache, o.mirror)
	if err != nil {
		return packages{}, err
	}
	kernel, names, err := a.resolve(ctx)
	if err != nil {
		return packages{}, err
	}
	if err := errors.Join(os.RemoveAll(debs), os.MkdirAll(debs, 0o755)); err != nil {
		return packages{}, err
	}
	fmt.Printf("fetching %s and %d other packages\n", kernel, len(names))
	// apt compares what it gets with the signed index.
	cmd := a.command(ctx, "apt-get", append([]string{"-q", "download", kernel}, names...)...)
	cmd.Dir = debs
	if err := quietly(cmd); err != nil {
		return packages{}, err
	}
	p, err := note(debs, kernel)
	if err != nil {
		return p, err
	}
	data, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return p, err
	}
	return p, os.WriteFile(list, append(data, '\n'), 0o644)
}

// checkPackages reads the list and compares the packages with it.
func checkPackages(list, debs string) (packages, error) {
	var p packages
	data, err := os.ReadFile(list)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("%s: %w", list, err)
	}
	for _, one := range append(slices.Clone(p.Userland), p.Kernel) {
		sum, err := checksum(filepath.Join(debs, one.File))
		if err != nil {
			return p, err
		}
		if sum != one.SHA256 {
			return p, fmt.Errorf("%s has another checksum than when it was fetched", one.File)
		}
	}
	return p, nil
}

// note makes the list of what was fetched.
func note(debs, kernel string) (packages, error) {
	var p packages
	entries, err := os.ReadDir(debs)
	if err != nil {
		return p, err
	}
	for _, e := range entries {
		sum, err := checksum(filepath.Join(debs, e.Name()))
		if err != nil {
			return p, err
		}
		one := pkg{File: e.Name(), SHA256: sum}
		if strings.HasPrefix(e.Name(), kernel+"_") {
			p.Kernel = one
		} else {
			p.Userland = append(p.Userland, one)
		}
	}
	if p.Kernel.File == "" {
		return p, fmt.Errorf("apt fetched no file for %s", kernel)
	}
	return p, nil
}

func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// apt is a private apt: the system's proxies and keys, but sources, lists and
// separate state.
type apt struct{ config string }

func newApt(ctx context.Context, cache, mirror string) (*apt, error) {
	if mirror == "" {
		var err error
		if mirror, err = systemMirror(ctx); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(cache, "apt")
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	// Hooks of the system may touch what is not ours. No package is installed
	// as far as this apt knows, so it names every dependency.
	config := fmt.Sprintf(`#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::State %[1]q;
Dir::State::status %[2]q;
Dir::Cache %[3]q;
Dir::Etc::sourcelist %[4]q;
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Install-Recommends "false";
Acquire::Languages "none";
`, dir+"/state", dir+"/status", dir+"/cache", dir+"/sources.list")
	source := fmt.Sprintf("deb [signed-by=%s] %s %s main\n", keyring, mirror, suite)
	for name, text := range map[string]string{"apt.conf": config, "sources.list": source, "status": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	a := &apt{config: filepath.Join(dir, "apt.conf")}
	return a, quietly(a.command(ctx, "apt-get", "-q", "update"))
}

// systemMirror is the archive that this system itself is made of.
func systemMirror(ctx context.Context) (string, error) {
	out, err := output(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian", "Label: Debian")
	if err != nil {
		return "", err
	}
	for uri := range strings.FieldsSeq(out) {
		return uri, nil
	}
	return "", errors.New("apt has no Debian mirror here (or no lists yet: apt-get update); name one with -mirror")
}

func (a *apt) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, append([]string{"-c", a.config}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

// resolve names the kernel's package and all packages of the userland.
func (a *apt) resolve(ctx context.Context) (kernel string, names []string, err error) {
	out, err := a.command(ctx, "apt-cache", "depends", kernelMeta).Output()
	if err != nil {
		return "", nil, fmt.Errorf("apt-cache depends %s: %w", kernelMeta, err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, kernelStart) {
			kernel = word
		}
	}
	if kernel == "" {
		return "", nil, fmt.Errorf("%s in %s depends on no %s*: %s", kernelMeta, suite, kernelStart, out)
	}
	out, err = a.command(ctx, "apt-get", append([]string{"-qq", "--print-uris", "install"}, userland()...)...).Output()
	if err != nil {
		return "", nil, fmt.Errorf("apt-get install --print-uris: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		// 'URI' FILE SIZE HASH, and a file is NAME_VERSION_ARCHITECTURE.deb.
		fields := strings.Fields(line)
		if len(fields) != 4 || !strings.HasSuffix(fields[1], ".deb") {
			return "", nil, fmt.Errorf("apt-get printed %q", line)
		}
		name, _, _ := strings.Cut(fields[1], "_")
		names = append(names, name)
	}
	if len(names) < len(userland()) {
		return "", nil, fmt.Errorf("apt-get named %d packages for %d", len(names), len(userland()))
	}
	return kernel, names, nil
}
