package publish

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// Options describe a publication.
type Options struct {
	// ID names the publication: letters, digits and underscores.
	ID string
	// Repo is the directory of the host that has the repository, and Path its
	// absolute path.
	Repo *fsx.Dir
	Path string
	// Scratch is an empty directory that no other user can enter. The caller removes it.
	Scratch string
	// Env and Home are the operator's variables and home directory.
	Env  []string
	Home string
	// Closed are directories that no program is started from.
	Closed hosttool.ExcludedDirs
	// Settings are the operator's.
	Settings Settings

	Branch   string
	Base     string // "" is that of the settings, or main
	Title    string
	Message  string
	Trailers []Trailer
	Sign     string // SignSSH, SignGPG, SignOff; "" is as git's global configuration says

	// HasToken is a caller that is not the operator: it may make only the branches that
	// the settings name.
	HasToken bool

	Changes []Change
	// History, if set, is the work's own repository, whose commits are kept.
	History *History
	// Secret reports whether a rule takes a path for a secret.
	Secret func(path string) (rule string, is bool)
}

// Work is a publication that passed the gates. Until AddBranch and Push it is in the
// scratch directory only.
type Work struct {
	// Base is the branch, BaseCommit its commit, Commit the new commit.
	Base, BaseCommit, Commit, Tree string
	// Commits is the number of new commits.
	Commits int
	// Signed is the kind of signature: ssh, gpg or off.
	Signed string
	Rules  Rules
	Size   Size
	// Paths are the changed paths; Ignored those that .gitignore leaves out.
	Paths   []Path
	Ignored []string

	opt  Options
	s    *scratch
	repo *hostRepo
	who  operator
}

// Path is a path that the commit changes: "added", "modified" or "deleted".
type Path struct{ Path, Change string }

// Prepare makes the commit in the scratch directory and runs the gates. The host's
// repository is only read.
func Prepare(ctx context.Context, opt Options) (*Work, error) {
	git, err := newRunner(opt.Env, opt.Path, opt.Closed)
	if err != nil {
		return nil, err
	}
	w := &Work{opt: opt, Base: opt.Base}
	if w.s, err = newScratch(opt.Scratch, git); err != nil {
		return nil, err
	}
	if err := w.open(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := w.build(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close releases the scratch directory. The repository stays open: it is the caller's.
func (w *Work) Close() error { return w.s.dir.Close() }

// open checks names, and opens the repository.
func (w *Work) open(ctx context.Context) (err error) {
	if w.repo, err = openRepo(ctx, w.opt.Repo, w.opt.Path, w.s); err != nil {
		return err
	}
	if w.Base == "" {
		w.Base = w.opt.Settings.Base
	}
	if w.Base == "" {
		if w.Base, err = w.repo.defaultBase(); err != nil {
			return err
		}
	}
	if err := w.checkNames(ctx); err != nil {
		return err
	}
	if w.who, err = readOperator(ctx, w.s.git, w.opt.Env); err != nil {
		return err
	}
	if err := w.repo.freeBranch(w.opt.Branch); err != nil {
		return err
	}
	w.BaseCommit, err = w.repo.baseCommit(w.Base)
	return err
}

func (w *Work) checkNames(ctx context.Context) error {
	for flag, name := range map[string]string{"--branch": w.opt.Branch, "--base": w.Base} {
		_, err := w.s.git.run(ctx, call{args: []string{"check-ref-format", "refs/heads/" + name}})
		if exitCode(err) == 1 || strings.HasPrefix(name, "-") || name == "HEAD" || strings.HasPrefix(name, "refs/") {
			return api.Usagef("as in work/fix-login", "%s: %s is not the name of a branch", flag, quote.Arg(name))
		}
		if err != nil {
			return err
		}
	}
	switch {
	case w.opt.Branch == w.Base:
		return api.Usagef("publish to a new branch", "--branch and --base are both %s", quote.Arg(w.Base))
	case w.opt.Title == "" || strings.ContainsAny(w.opt.Title, "\r\n\x00") || strings.TrimSpace(w.opt.Title) != w.opt.Title:
		return api.Usagef("", "--title must be one line of text")
	case strings.Contains(w.opt.Message, "\x00"):
		return api.Usagef("", "--message has a NUL byte")
	}
	return CheckText(map[string]string{"--branch": w.opt.Branch, "--title": w.opt.Title, "--message": w.opt.Message})
}

// CheckText refuses texts of a publication, by their names, that look like they have a
// secret. The secret itself is never shown.
func CheckText(texts map[string]string) error {
	var lines []string
	for name, text := range texts {
		if redact.Has(text) {
			lines = append(lines, "secret: "+name+" looks like it has a key or a token")
		}
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	return &api.Error{Kind: api.Refused, Code: api.CodeGate, Message: "the gates refuse the text, nothing was published", Hint: "leave the secret out, and replace it where it came from", Details: lines}
}

// build makes the commit and runs the gates.
func (w *Work) build(ctx context.Context) error {
	if err := w.s.fetch(ctx, w.repo, w.BaseCommit); err != nil {
		return err
	}
	failpoint.Hit("publish.fetched")
	base, err := w.s.listBase(ctx, w.BaseCommit, w.opt.Changes)
	if err != nil {
		return err
	}
	if err := w.readRules(ctx, base); err != nil {
		return err
	}
	edits, ignored, err := w.s.merge(ctx, w.opt.Changes, base)
	if err != nil {
		return err
	}
	w.Ignored = ignored
	if len(edits) == 0 {
		return api.Refusef(api.CodeNothing, "there is nothing to publish", "the base %s has all accepted changes already", quote.Arg(w.Base))
	}
	w.describe(edits)
	if w.Tree, err = w.s.writeTree(ctx, w.BaseCommit, edits); err != nil {
		return err
	}
	g := &gates{s: w.s, repo: w.repo, rules: w.Rules, secret: w.opt.Secret}
	if err := g.check(ctx, w.BaseCommit, w.Tree, edits); err != nil {
		return err
	}
	w.Size = g.size
	if err := g.verdict(); err != nil {
		return err
	}
	return w.sign(ctx)
}

// readRules combines the operator's settings with those of the base commit.
func (w *Work) readRules(ctx context.Context, base *baseFiles) error {
	var own Settings
	if o, ok := base.at[settingsFile]; ok {
		f := &File{Open: func() (io.ReadCloser, error) {
			text, err := w.s.git.run(ctx, w.s.in("cat-file", "blob", o.id))
			return io.NopCloser(strings.NewReader(string(text))), err
		}}
		text, err := readAll(f, MaxSettings)
		if err == nil && o.mode == modeLink {
			err = errors.New("it is a link")
		}
		if err == nil {
			own, err = ParseSettings(text)
		}
		if err != nil {
			return api.Refusef(api.CodeGate, "correct it in the base", "%s of the base commit: %v", settingsFile, err)
		}
	}
	w.Rules = combine(w.opt.Settings, own)
	if w.opt.HasToken {
		if err := w.Rules.checkBranch(w.opt.Branch); err != nil {
			return err
		}
	}
	if w.Rules.Base != "" && w.Rules.Base != w.Base {
		return api.Refusef(api.CodeGate, "give --base "+quote.Arg(w.Rules.Base), "%s of the base commit allows the base %s only", settingsFile, quote.Arg(w.Rules.Base))
	}
	return nil
}

func (w *Work) describe(edits []edit) {
	for _, e := range edits {
		change := "modified"
		switch {
		case e.old == nil:
			change = "added"
		case e.now == nil:
			change = "deleted"
		}
		w.Paths = append(w.Paths, Path{e.path, change})
	}
}

// sign makes the commit and verifies it.
func (w *Work) sign(ctx context.Context) error {
	sign, err := w.s.newSigning(w.opt.Sign, w.who, w.Rules, w.opt.Home)
	if err != nil {
		return err
	}
	identity, err := w.who.identity()
	if err != nil {
		return err
	}
	w.Signed = sign.how
	commit := func(tree, parent, message string) (string, error) {
		return w.s.commit(ctx, sign, identity, tree, parent, message)
	}
	if w.opt.History != nil {
		w.Commit, err = w.rebuild(ctx, commit)
	} else {
		w.Commits = 1
		w.Commit, err = commit(w.Tree, w.BaseCommit, message(w.opt.Title, w.opt.Message, w.opt.Trailers))
	}
	if err != nil {
		return err
	}
	failpoint.Hit("publish.committed")
	if !w.Rules.RequireSigned {
		return nil
	}
	return w.s.verify(ctx, sign, w.BaseCommit, w.Commit)
}

// AddBranch makes the branch in the host's repository.
func (w *Work) AddBranch(ctx context.Context) error {
	err := w.addBranch(ctx)
	if _, known := errors.AsType[*api.Error](err); known || err == nil {
		return err
	}
	return api.Failf(api.CodePublish, err, "make the branch %s", quote.Arg(w.opt.Branch))
}
