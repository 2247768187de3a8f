package secretfiles_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// TestInGitDir: what is not known to be harmless in a repository is a control file.
func TestInGitDir(t *testing.T) {
	t.Parallel()
	const hex = "01234567890123456789012345678901234567"
	for want, paths := range map[secretfiles.GitFile][]string{
		secretfiles.GitRef: {
			"HEAD", "refs/heads/main", "refs/heads/a/b", "refs/tags/v1", "refs/remotes/origin/HEAD", "refs/notes/commits", "refs/stash",
			"modules/a/HEAD", "modules/a/b/refs/heads/x", "modules/a/modules/b/HEAD", "worktrees/w/HEAD",
		},
		secretfiles.GitPackedRefs: {"packed-refs", "modules/m/packed-refs"},
		secretfiles.GitLog:        {"logs/HEAD", "logs/refs/heads/a/b", "logs/refs/stash"},
		secretfiles.GitIndex:      {"index", "modules/m/index", "worktrees/w/index"},
		secretfiles.GitObject:     {"objects/ab/" + hex, "modules/m/objects/ab/" + hex},
		secretfiles.GitPack:       {"objects/pack/pack-ab" + hex + ".pack"},
		secretfiles.GitPackIndex:  {"objects/pack/pack-ab" + hex + ".idx"},
		secretfiles.GitBehind: {
			"COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "gc.log", "opencode", "index.lock", "refs/heads/a.lock", "info/refs",
			"objects/info/packs", "objects/info/commit-graph", "objects/pack/multi-pack-index", "objects/pack/pack-ab" + hex + ".rev",
			"objects/ab/tmp_obj_x", "worktrees/w/ORIG_HEAD", "modules/m/COMMIT_EDITMSG",
		},
		secretfiles.GitOther: {
			"config", "hooks/x", "hooks/HEAD", "description", "branches/x", "remotes/origin", "shallow", "commondir", "gitdir", "sharedindex.x",
			"info/exclude", "info/attributes", "info/grafts", "info/sparse-checkout", "head", "Index", "refs/replace/x", "refs/other/x", "refs/heads",
			"refs/x", "refs", "objects", "objects/ab/short", "objects/AB/" + hex, "objects/info/alternates", "objects/info/http-alternates",
			"objects/pack/pack-ab" + hex + ".keep", "objects/pack/pack-ab" + hex + ".promisor", "objects/pack/x.pack", "logs/x", "logs/refs/replace/x",
			"modules/m/config", "modules/m/hooks/post-checkout", "modules/HEAD", "modules/m/info/attributes", "worktrees/w/gitdir",
			"worktrees/w/commondir", "worktrees/w/worktrees/x/HEAD", "worktrees/HEAD", "lfs/objects/x", "rebase-merge/git-rebase-todo", "x/index.lock",
		},
	} {
		for _, p := range paths {
			if got := secretfiles.InGitDir(p, false); got != want {
				t.Errorf("%s: %d, want %d", p, got, want)
			}
			if _, control := secretfiles.ControlFile("sub/.Git/"+p, false); control != (want == secretfiles.GitOther) {
				t.Errorf(".Git/%s is a control file: %v", p, control)
			}
		}
	}
	for dir, want := range map[string]secretfiles.GitFile{
		".": secretfiles.GitDir, "refs": secretfiles.GitDir, "refs/heads/a": secretfiles.GitDir, "objects/ab": secretfiles.GitDir, "objects/info": secretfiles.GitDir,
		"info": secretfiles.GitDir, "modules/a": secretfiles.GitDir, "logs/refs": secretfiles.GitDir, "refs/replace": secretfiles.GitOther, "hooks": secretfiles.GitOther,
		"index": secretfiles.GitOther, "objects/xy": secretfiles.GitOther, "branches": secretfiles.GitOther,
	} {
		if got := secretfiles.InGitDir(dir, true); got != want {
			t.Errorf("directory %s: %d, want %d", dir, got, want)
		}
	}
}
