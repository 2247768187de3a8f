package secretfiles

import "sync"

// Mask is how a cell with masks shows a control file of its workspace.
type Mask uint8

const (
	// Shown: it is not masked.
	Shown Mask = iota
	// ReadOnly: the cell sees it and cannot change it.
	ReadOnly
	// Filtered is ReadOnly, without the settings that run programs.
	Filtered
	// Hidden: the cell does not see it.
	Hidden
)

// controlGroup is one reason why apply holds a file back.
type controlGroup struct {
	what     string
	mask     Mask
	patterns []string
}

// The groups that several masks share.
const (
	gitSetting   = "git setting or hook"
	agentSetting = "agent or MCP setting"
)

// mcpFiles are the files that name the servers of an agent.
func mcpFiles() []string {
	return []string{".mcp.json", "mcp.json", ".mcp", "mcp_config.json", "**/.github/mcp*"}
}

// controlGroups lists the files that make a host run code of the project although
// the user did not run it: it is enough to enter the directory, to open it in an
// editor or an agent, or to use git or a package manager for something harmless. Names are lower case and compared without regard to case,
// and everything below a directory that matches belongs to it. The list with its
// reasons is docs/reference/control-files.md; a test keeps the two equal.
func controlGroups() []controlGroup {
	return []controlGroup{
		{gitSetting, Hidden, []string{
			"**/.git/hooks", "**/.git/info/attributes",
			"**/.git/modules/**/hooks", "**/.git/modules/**/info/attributes", "**/*.git/hooks",
		}},
		{gitSetting, Filtered, []string{
			"**/.git/config*", "**/.git/modules/**/config*", "**/.git/worktrees/**/config*", "**/*.git/config*",
		}},
		{gitSetting, Shown, []string{
			"**/.git/commondir", "**/.git/worktrees/**/commondir", "**/.git/worktrees/**/gitdir",
			"**/.git/rebase-merge", "**/.git/rebase-apply", "**/.git/sequencer",
			".gitmodules", ".gitconfig", "**/.config/git",
		}},
		{"git hook manager", Shown, []string{
			".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml", ".husky", ".huskyrc*", ".githooks", ".git-hooks",
			".lefthook", ".lefthook.*", "lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json", "lefthook-local.*",
			".lefthook-local.*", ".overcommit.yml", ".simple-git-hooks*", ".lintstagedrc*", "lint-staged.config.*",
		}},
		{"other version control setting", Shown, []string{"**/.hg/hgrc*", ".hgrc", "**/.jj/repo/config.toml"}},
		{"environment loaded on entering the directory", ReadOnly, []string{
			".envrc", ".direnv", ".direnvrc", "**/.config/direnv", ".autoenv", ".autoenv.zsh", ".shadowenv.d",
			".tool-versions", ".mise.toml", ".mise.*.toml", "mise.toml", "mise.*.toml", ".mise", "**/mise/config*.toml", ".rtx.toml", "**/.config/mise",
			"**/.config/mise.toml", "devenv.local.nix",
		}},
		{"shell start-up file", Shown, []string{
			".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion", ".profile",
			".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".oh-my-zsh", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout",
			".xonshrc", ".inputrc", "**/.config/fish", "**/.config/nushell", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc",
			".pam_environment", "**/.config/environment.d", "**/.config/autostart", "**/.config/systemd", "**/.local/bin",
		}},
		{"editor setting", ReadOnly, []string{
			".vscode", ".vscode-server", "*.code-workspace", ".idea", ".fleet", ".zed", ".vs", ".nova", ".theia", ".helix",
			"*.sublime-project", "*.sublime-workspace", ".externaltoolbuilders",
			".vim", ".vimrc", ".gvimrc", "_vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".local.vimrc", ".nvim", "**/.config/nvim",
			".emacs", ".emacs.d", ".dir-locals.el", ".dir-locals-2.el",
			".devcontainer", ".devcontainer.json", ".gitpod.yml", ".gitpod.yaml",
		}},
		{agentSetting, Hidden, []string{
			".claude", ".claude.json", ".cursor", ".codex", ".gemini", ".aider*", ".continue",
			".continuerc.json", ".cline", ".roo", ".windsurf", ".codeium", ".opencode", "opencode.json", "opencode.jsonc", ".amazonq", ".kiro",
			".junie", ".goose", ".crush", ".crush.json", "crush.json", ".qwen", ".factory", ".augment", ".openhands", ".agents",
			".agent", ".copilot", "**/.github/copilot*", "**/.github/hooks", "**/.github/agents", "**/.github/skills", "**/.github/instructions",
			".trae", ".amp", ".kilocode",
		}},
		{agentSetting, Hidden, mcpFiles()},
		{"tool setting that runs code", Shown, []string{
			".npmrc", ".yarnrc", ".yarnrc.yml", "**/.yarn/plugins", "**/.yarn/releases", ".pnpmfile.cjs", ".pnpmfile.mjs", ".pnpmfile.js", ".pypirc",
			".pip", "**/.cargo/config", "**/.cargo/config.toml", "**/.cargo/bin", "**/.bundle/config", ".gemrc", ".irbrc", ".pryrc", ".rdbgrc",
			".pythonrc", ".pythonstartup", ".pdbrc", ".pdbrc.py", ".gdbinit", ".lldbinit", ".rprofile", ".renviron", ".octaverc", ".ghci",
			".sqliterc", ".psqlrc", ".mysqlrc", ".my.cnf", ".curlrc", ".wgetrc", ".ackrc", ".lessfilter", ".lesskey", ".mailcap", ".screenrc", ".tmux.conf",
			"**/.mvn/extensions.xml", "**/.mvn/jvm.config", "**/.mvn/maven.config", ".mavenrc", "**/.gradle/init.gradle", "**/.gradle/init.d",
			".bazelrc", "**/.config/pip",
		}},
		{"login or credential setting", Shown, []string{
			".ssh", ".gnupg", ".aws", "**/.docker/config.json", "**/.docker/cli-plugins", "**/.kube/config", ".netrc", "_netrc", ".git-credentials", ".terraformrc",
		}},
		{"forkcell's own rules", Shown, []string{ignoreFile, ".forkcell"}},
	}
}

// ControlFiles returns the list that IsControl uses, group by group.
func ControlFiles() map[string][]string { return byGroup(controlGroups()) }

func byGroup(groups []controlGroup) map[string][]string {
	m := map[string][]string{}
	for _, g := range groups {
		m[g.what] = append(m[g.what], g.patterns...)
	}
	return m
}

type controls struct {
	list *list
	what []string // by pattern
	mask []Mask   // by pattern
}

var controlList = sync.OnceValue(func() controls { return newControls(controlGroups()) })

func newControls(groups []controlGroup) controls {
	var c controls
	var texts []string
	for _, g := range groups {
		for _, p := range g.patterns {
			texts = append(texts, p)
			c.what, c.mask = append(c.what, g.what), append(c.mask, g.mask)
		}
	}
	l, err := newList(texts, true)
	if err != nil {
		panic(err) // the list is fixed, and a test parses it
	}
	c.list = l
	return c
}

// find returns the group of path, or of a directory above it.
func (c *controls) find(path string, dir bool) (what string, mask Mask, yes bool) {
	anyParent(path, dir, func(parts []string, isDir bool) bool {
		if i := c.list.index(parts, isDir); i >= 0 {
			what, mask, yes = c.what[i], c.mask[i], true
		}
		return yes
	})
	return what, mask, yes
}

// IsControl reports whether path, which is not a directory, or a directory above
// it, makes the host run things later, and what it is. A file called .git does
// too: it names the directory of the repository, and so of its hooks.
func IsControl(path string) (what string, yes bool) {
	what, _, yes = isControl(path, false)
	return what, yes
}

// ControlFile is IsControl for a path that may be a directory.
func ControlFile(path string, isDir bool) (what string, yes bool) {
	if isDir {
		return IsControlDir(path)
	}
	return IsControl(path)
}

// IsControlDir is IsControl for a directory.
func IsControlDir(path string) (what string, yes bool) {
	what, _, yes = isControl(path, true)
	return what, yes
}

// MaskOf returns how a cell with masks shows path, because of its own name or that
// of a directory above it.
func MaskOf(path string, dir bool) Mask {
	_, mask, _ := isControl(path, dir)
	return mask
}

func isControl(path string, dir bool) (what string, mask Mask, yes bool) {
	if !dir && isInstruction(path) {
		return "", Shown, false
	}
	c := controlList()
	anyParent(path, dir, func(parts []string, isDir bool) bool {
		if !isDir && fold(parts[len(parts)-1]) == ".git" {
			what, mask, yes = gitSetting, ReadOnly, true
			return true
		}
		if i := c.list.index(parts, isDir); i >= 0 {
			what, mask, yes = c.what[i], c.mask[i], true
		}
		return yes
	})
	if !yes {
		GitFiles(path, dir, func(f GitFile) {
			if f == GitOther {
				what, yes = gitSetting, true
			}
		})
	}
	return what, mask, yes
}
