package cli

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newPublish(s *frame) *cobra.Command {
	var r api.PublishRequest
	cmd := &cobra.Command{
		Use:   "publish CELL --branch BRANCH",
		Short: "Put the accepted changes on a new branch of the source's repository",
		Long: `Put the accepted changes of a cell on a new branch of the git repository in the
source directory, as one signed commit on a base branch. --to names another
directory with a repository that has the base, such as one that was moved, or a clone.

git makes the commit in a scratch directory. Configuration, hooks, filters and
attributes of the repository have no effect. The commit has your name, address and
signing key, from git's global configuration, and names receipt and decision. The
work tree and the other branches stay as they are. --keep-commits publishes the
commits that were made in the cell instead, each made again from its files and its
message, with you as the author.

Gates decide first: at most 25 files, 1,200 lines, 1 MiB, 8 top-level areas, no binary
files, no control files, no files that run when they are pushed (CI workflows,
CODEOWNERS, update bots), no secrets, and signatures by allowed signers only.
.forkcell/publish.yaml of the base commit can tighten them. publish.yaml in your
configuration directory can also loosen them. If a gate refuses or a push fails, the
repository stays as it was.

--pr makes a pull request after the push, by the API of GitHub, GitLab, Forgejo or
Gitea, with the message and the newest receipt as its text. If that fails, the branch
stays and is named.`,
		Example: `  forkcell publish demo --branch work/fix-login --dry-run
  forkcell publish demo --branch work/fix-login --title 'Fix the login'
  forkcell publish demo --branch work/fix-login --base develop --push
  forkcell publish demo --branch work/fix-login --pr
  forkcell publish demo --branch work/fix-login --to ../moved`,
		Args:              positional("CELL"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if err := checkPublish(cmd, r); err != nil {
				return err
			}
			r.Push = r.Push || r.PR
			r.Cell, r.Settings = args[0], configFile("publish.yaml")
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error { return runPublish(ctx, s, e, r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Branch, "branch", "", "name of the new `BRANCH`")
	f.StringVar(&r.Base, "base", "", "`BRANCH` to start from (default: base of publish.yaml, else main, or master if that is all there is)")
	f.StringVar(&r.Title, "title", "", "first line of the commit's message (default: names the cell)")
	f.StringVar(&r.Message, "message", "", "further `TEXT` of the commit's message")
	f.StringVar(&r.Sign, "sign", "", "signature: `ssh|gpg|off` (default: gpg.format of git's global configuration)")
	f.StringVar((*string)(&r.To), "to", "", "publish to the repository in `DIR` instead of the source directory")
	f.BoolVar(&r.Push, "push", false, "push the branch to the push URL of origin")
	f.BoolVar(&r.PR, "pr", false, "also make a pull request; implies --push")
	f.BoolVar(&r.KeepCommits, "keep-commits", false, "publish the commits that were made in the cell, each signed by you, instead of one")
	f.BoolVar(&r.DryRun, "dry-run", false, "make and check the commit, publish nothing")
	return cmd
}

func checkPublish(cmd *cobra.Command, r api.PublishRequest) error {
	if r.Branch == "" {
		return usageError("", "%s: --branch is missing", verb(cmd))
	}
	if !cmd.Flags().Changed("sign") {
		return nil
	}
	return oneOf(cmd, "sign", r.Sign, "ssh", "gpg", "off")
}

func runPublish(ctx context.Context, s *frame, e publisher, r api.PublishRequest) error {
	res, err := e.Publish(ctx, r)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) { printPublish(p, res) })
}

func printPublish(p *page, r *api.PublishResult) {
	did := "published"
	if r.DryRun {
		did = "dry run: would publish"
	}
	p.printf("%s: %s to branch %s of %s\n", did, count(int64(len(r.Changes)), "file", "files"), quote.Arg(r.Branch), quote.Path(r.Repository))
	p.printf("  commit %s on %s, signature: %s\n", r.Commit, quote.Arg(r.Base), r.Signed)
	if r.Commits > 1 {
		p.printf("  the last of %d commits\n", r.Commits)
	}
	for _, c := range r.Changes {
		nameStatus(p, api.ChangeJSON{Path: c.Path, PathBase64: c.PathBase64, Change: c.Change}, "")
	}
	if len(r.Ignored) > 0 {
		p.printf("left out by .gitignore: %d\n", len(r.Ignored))
	}
	for _, name := range r.WithoutEffect {
		p.printf("without effect in the base commit's settings: %s\n", quote.Line(name))
	}
	switch {
	case r.PushedTo != "" && r.DryRun:
		p.printf("would push to %s\n", quote.Line(r.PushedTo))
	case r.PushedTo != "":
		p.printf("pushed to %s\n", quote.Line(r.PushedTo))
	}
	if r.PullRequest != "" {
		p.printf("pull request: %s\n", quote.Line(r.PullRequest))
	}
}
