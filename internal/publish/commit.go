package publish

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// The values of Options.Sign.
const (
	SignSSH = "ssh"
	SignGPG = "gpg"
	SignOff = "off"
)

// writeTree returns the tree of a commit with edits.
func (s *scratch) writeTree(ctx context.Context, commit string, edits []edit) (string, error) {
	index := []string{"GIT_INDEX_FILE=" + s.path("index")}
	in := func(args ...string) call { c := s.in(args...); c.env = index; return c }
	if _, err := s.git.run(ctx, in("read-tree", commit)); err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, e := range edits {
		if e.now == nil || e.old != nil && e.old.mode != e.now.mode {
			lines.WriteString("0 " + strings.Repeat("0", 40) + "\t" + e.path + "\x00")
		}
	}
	for _, e := range edits {
		if e.now != nil {
			lines.WriteString(e.now.mode + " " + e.now.id + "\t" + e.path + "\x00")
		}
	}
	c := in("update-index", "-z", "--index-info")
	c.stdin = strings.NewReader(lines.String())
	if _, err := s.git.run(ctx, c); err != nil {
		return "", api.Refusef(api.CodeGate, "", "git refuses a path of the work: %v", err)
	}
	return s.git.line(ctx, in("write-tree"))
}

// signing is how commits are signed and verified.
type signing struct {
	how    string
	config []setting
}

const signHint = "`git config --global gpg.format ssh`, then `git config --global user.signingkey ~/.ssh/KEY.pub`"

// newSigning reads the operator's signing key and allowed signers.
func (s *scratch) newSigning(how string, o operator, rules Rules, home string) (*signing, error) {
	if how == "" && o.value("gpg.format") == "" && o.value("user.signingkey") == "" && o.value("commit.gpgsign") == "" {
		hint := signHint
		if !rules.RequireSigned {
			hint += ", or --sign off"
		}
		return nil, api.Refusef(api.CodePublish, hint, "the commit cannot be signed: git's global configuration has no signing key")
	}
	if how == "" {
		how = map[string]string{"ssh": SignSSH, "": SignGPG, "openpgp": SignGPG}[o.value("gpg.format")]
	}
	switch how {
	case SignOff:
		if rules.RequireSigned {
			return nil, api.Refusef(api.CodeGate, "`require_signed: false` in publish.yaml of your configuration directory, unless the base commit requires signatures",
				"commits must be signed: --sign off is refused")
		}
		return &signing{how: how}, nil
	case SignGPG:
		return &signing{how, append(o.with("user.signingkey", "gpg."), setting{"gpg.format", "openpgp"}, setting{"gpg.minTrustLevel", "fully"})}, nil
	case SignSSH:
	default:
		return nil, api.Usagef("one of ssh, gpg, off", "signatures of the kind %s are not supported", quote.Arg(how))
	}
	if o.value("user.signingkey") == "" && o.value("gpg.ssh.defaultkeycommand") == "" {
		return nil, api.Refusef(api.CodePublish, signHint, "git's global configuration has no user.signingkey")
	}
	sign := &signing{how, append(o.with("user.signingkey", "gpg."), setting{"gpg.format", "ssh"})}
	if !rules.RequireSigned {
		return sign, nil
	}
	return sign, s.copySigners(sign, rules, o, home)
}

// copySigners copies the file of allowed signers, which must be the operator's own,
// to the scratch directory.
func (s *scratch) copySigners(sign *signing, rules Rules, o operator, home string) error {
	file := rules.AllowedSigners
	if file == "" {
		file = o.value("gpg.ssh.allowedsignersfile")
	}
	if rest, ok := strings.CutPrefix(file, "~/"); ok && home != "" {
		file = home + "/" + rest
	}
	const hint = "write a line `ADDRESS KEY` for each signer to FILE, as `echo \"$(git config --global user.email) $(cat ~/.ssh/KEY.pub)\"` prints yours, " +
		"then `git config --global gpg.ssh.allowedSignersFile FILE`"
	if file == "" {
		return api.Refusef(api.CodeGate, hint, "signatures cannot be verified: there is no file of allowed signers")
	}
	if !filepath.IsAbs(file) {
		return api.Usagef("give an absolute path", "the file of allowed signers is %s", quote.Path(file))
	}
	text, err := fsx.ReadOwn(file, 0o022, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return api.Refusef(api.CodeGate, hint, "the file of allowed signers %s does not exist", quote.Path(file))
	}
	if err != nil {
		return api.Refusef(api.CodeGate, "", "the file of allowed signers %s: %v", quote.Path(file), err)
	}
	sign.config = append(sign.config, setting{"gpg.ssh.allowedSignersFile", s.path("allowed-signers")})
	return fsx.WriteFile(s.dir, "allowed-signers", text, 0o600)
}

// commit makes a commit of a tree.
func (s *scratch) commit(ctx context.Context, sign *signing, identity []string, tree, parent, message string) (string, error) {
	args := []string{"commit-tree", "-p", parent}
	if sign.how != SignOff {
		args = append(args, "-S")
	}
	c := s.in(append(args, tree)...)
	c.stdin, c.env, c.config = strings.NewReader(message), identity, sign.config
	id, err := s.git.line(ctx, c)
	switch {
	case err != nil && sign.how != SignOff:
		return "", api.Refusef(api.CodePublish, "`git commit --allow-empty -S` shows whether you can sign", "the commit cannot be made and signed (%s): %v", sign.how, err)
	case err != nil:
		return "", api.Failf(api.CodePublish, err, "make the commit")
	}
	return id, nil
}

// verify checks the signature of each commit of a range against the allowed signers.
func (s *scratch) verify(ctx context.Context, sign *signing, base, head string) error {
	list, err := s.git.run(ctx, s.in("rev-list", "--end-of-options", head, "^"+base))
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(string(list)) {
		c := s.in("verify-commit", id)
		c.config = sign.config
		if _, err := s.git.run(ctx, c); err != nil {
			return api.Refusef(api.CodeGate, "add your key to the allowed signers", "the signature of commit %s is not by an allowed signer: %v", id, err)
		}
	}
	return nil
}

// Trailer is a line at the end of a commit's message.
type Trailer struct{ Key, Value string }

// message returns the message of a commit.
func message(title, body string, trailers []Trailer) string {
	var b strings.Builder
	b.WriteString(title + "\n\n")
	if body = strings.TrimSpace(body); body != "" {
		b.WriteString(body + "\n\n")
	}
	for _, t := range trailers {
		b.WriteString(t.Key + ": " + t.Value + "\n")
	}
	return b.String()
}
