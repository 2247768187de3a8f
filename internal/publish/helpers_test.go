package publish

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// desk is an operator with a key, and a repository on the host.
type desk struct {
	t                *testing.T
	home, repo, mark string
	env              []string
	settings         Settings
	base             map[string]string
}

// newDesk makes a repository with a base commit on main.
func newDesk(t *testing.T, files map[string]string) *desk {
	t.Helper()
	dir := t.TempDir()
	d := &desk{t: t, home: dir + "/home", repo: dir + "/ws", mark: dir + "/mark", base: files}
	d.env = []string{"HOME=" + d.home, "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	d.must(os.MkdirAll(d.home, 0o700))
	d.must(os.MkdirAll(d.repo, 0o755))
	d.exec(d.home, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "key")
	d.signers("key")
	for key, value := range map[string]string{
		"user.name": "Op Erator", "user.email": "op@example.com", "gpg.format": "ssh",
		"user.signingkey": d.home + "/key.pub", "gpg.ssh.allowedSignersFile": d.home + "/signers",
	} {
		d.git("config", "--global", key, value)
	}
	d.git("init", "--quiet", "--initial-branch=main")
	d.commit("base", files)
	return d
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// signers allows the key of a name.
func (d *desk) signers(key string) {
	d.t.Helper()
	pub, err := os.ReadFile(filepath.Join(d.home, key+".pub"))
	d.must(err)
	d.must(os.WriteFile(d.home+"/signers", []byte("op@example.com "+string(pub)), 0o600))
}

// commit writes files to the work tree and commits them as the operator would.
func (d *desk) commit(message string, files map[string]string) string {
	d.t.Helper()
	for name, text := range files {
		d.write(name, text)
	}
	d.git("add", "--all")
	d.git("commit", "--quiet", "--allow-empty", "-m", message)
	return d.git("rev-parse", "HEAD")
}

func (d *desk) write(name, text string) {
	d.t.Helper()
	at := filepath.Join(d.repo, name)
	d.must(os.MkdirAll(filepath.Dir(at), 0o755))
	d.must(os.WriteFile(at, []byte(text), 0o644))
}

func (d *desk) git(args ...string) string {
	d.t.Helper()
	return d.exec(d.repo, "git", args...)
}

func (d *desk) exec(dir, name string, args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func text(s string) *File {
	return &File{Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }}
}

func link(to string) *File {
	f := text(to)
	f.Link = true
	return f
}

// change changes a file of the base commit, or adds one. "" deletes it.
func (d *desk) change(name, now string) Change {
	c := Change{Path: name}
	if was, ok := d.base[name]; ok {
		c.Old = text(was)
	}
	if now != "" {
		c.New = text(now)
	}
	return c
}

// options returns those of a publication of changes to the branch work.
func (d *desk) options(changes ...Change) Options {
	d.t.Helper()
	root, err := fsx.OpenRoot(d.repo)
	d.must(err)
	d.t.Cleanup(func() { _ = root.Close() })
	return Options{
		ID: "publish_" + filepath.Base(d.t.TempDir()), Repo: root, Path: d.repo, Scratch: d.t.TempDir(), Env: d.env, Home: d.home, Settings: d.settings,
		Branch: "work", Title: "Change things", Message: "Because.", Trailers: []Trailer{{"Forkcell-Receipt", "rcpt_1"}},
		Changes: changes, Secret: func(p string) (string, bool) { return ".env", p == ".env" },
	}
}

func (d *desk) prepare(o Options) (*Work, error) {
	d.t.Helper()
	w, err := Prepare(d.t.Context(), o)
	if err == nil {
		d.t.Cleanup(func() { _ = w.Close() })
	}
	return w, err
}

// publish publishes changes to the branch work.
func (d *desk) publish(changes ...Change) *Work {
	d.t.Helper()
	w, err := d.prepare(d.options(changes...))
	d.must(err)
	d.must(w.AddBranch(d.t.Context()))
	return w
}

// refused checks that a publication is refused with a code and a part of its text,
// and that the repository is as it was.
func (d *desk) refused(o Options, code api.Code, part string) {
	d.t.Helper()
	before := d.state()
	_, err := d.prepare(o)
	d.isRefused(err, code, part)
	if now := d.state(); now != before {
		d.t.Errorf("the repository changed:\n%s\nwas\n%s", now, before)
	}
}

func (d *desk) isRefused(err error, code api.Code, part string) {
	d.t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message+"\n"+strings.Join(e.Details, "\n"), part) {
		d.t.Errorf("got %v, want code %s with %q", err, code, part)
		if ok {
			d.t.Errorf("details: %q", e.Details)
		}
	}
}

// state lists every file of the repository.
func (d *desk) state() string {
	d.t.Helper()
	return d.exec(d.repo, "sh", "-c", "find . -printf '%p %m %s\n' | sort; cat .git/HEAD .git/refs/heads/*; cat .git/packed-refs 2>/dev/null; true")
}

// trap returns a command that leaves a mark.
func (d *desk) trap() string { return "touch " + d.mark }

func (d *desk) marked() bool {
	_, err := os.Lstat(d.mark)
	return err == nil
}

// tryGit runs git in the repository. It may fail.
func (d *desk) tryGit(args ...string) (string, error) {
	cmd := exec.CommandContext(d.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = d.repo, d.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// swapOffsets exchanges the places of two objects in the index of a pack, and
// computes its checksum again.
func swapOffsets(t *testing.T, index []byte, a, b string) []byte {
	t.Helper()
	const head, fan, id = 8, 4 * 256, 20
	n := int(binary.BigEndian.Uint32(index[head+fan-4:]))
	at := func(hash string) int {
		raw, _ := hex.DecodeString(hash)
		for i := range n {
			if bytes.Equal(index[head+fan+i*id:][:id], raw) {
				return head + fan + n*(id+4) + i*4
			}
		}
		t.Fatalf("%s is not in the index", hash)
		return 0
	}
	out := bytes.Clone(index)
	copy(out[at(a):][:4], index[at(b):])
	copy(out[at(b):][:4], index[at(a):])
	sum := sha1.Sum(out[:len(out)-id])
	copy(out[len(out)-id:], sum[:])
	return out
}
