package cli

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
)

// gitUser is the caller's identity for git.
type gitUser caller.GitUser

// readGitUser reads the caller's name and address from git's global configuration.
// It reads nothing else of it, and no configuration of a repository, which is not
// the caller's.
//
// It reads plain files itself and leaves all others to git: starting git takes as
// much processor time as a sixth of a run.
func readGitUser(ctx context.Context) gitUser {
	if u, ok := plainGitUser(globalGitFiles()); ok {
		return u
	}
	return askGitUser(ctx)
}

// globalGitFiles lists git's global configuration, in the order in which later
// values win.
func globalGitFiles() []string {
	if file, ok := os.LookupEnv("GIT_CONFIG_GLOBAL"); ok {
		return []string{file}
	}
	var files []string
	home, config := os.Getenv("HOME"), os.Getenv("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	if config != "" {
		files = append(files, filepath.Join(config, "git", "config"))
	}
	if home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"))
	}
	return files
}

// plainGitUser reads the files, and reports whether they are plain enough to do so.
func plainGitUser(files []string) (u gitUser, ok bool) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !u.readPlain(string(text)) {
			return gitUser{}, false
		}
	}
	return u, true
}

// readPlain reads the section [user] of a plain configuration, and reports whether
// the configuration is plain: every line is a comment, a header of a section, or a
// key with a value that is neither quoted nor escaped. Includes, and anything else
// that git would have to interpret, are not plain.
func (u *gitUser) readPlain(text string) bool {
	if strings.ContainsAny(text, "\\\x00\r\ufeff") {
		return false
	}
	inUser := false
	for line := range strings.Lines(text) {
		line = strings.Trim(line, " \t\n")
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			name, ok := strings.CutSuffix(line[1:], "]")
			name = strings.ToLower(name)
			if !ok || strings.ContainsAny(name, "[].#;") || strings.HasPrefix(name, "include") {
				return false
			}
			inUser = name == "user"
		case inUser:
			if !u.readKey(line) {
				return false
			}
		}
	}
	return true
}

// readKey reads one line of the section [user], and reports whether it is plain.
func (u *gitUser) readKey(line string) bool {
	key, value, ok := strings.Cut(line, "=")
	if !ok || strings.ContainsAny(value, "\"#;") {
		return false
	}
	value = strings.Trim(value, " \t")
	switch strings.ToLower(strings.TrimRight(key, " \t")) {
	case "name":
		u.Name = value
	case "email":
		u.Email = value
	}
	return true
}

// askGitUser asks the git of the system. It may run while the home is being opened, so that
// it cannot know which other directories are safe.
func askGitUser(ctx context.Context) (u gitUser) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	programs := hosttool.System()
	git, err := programs.Look("git")
	if err != nil {
		return u
	}
	cmd := exec.CommandContext(ctx, git, "config", "--global", "--includes", "--null", "--get-regexp", `^user\.(name|email)$`)
	cmd.Dir = "/"
	cmd.Env = []string{"GIT_TERMINAL_PROMPT=0", "PATH=" + programs.Path()}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	out, err := cmd.Output()
	if err != nil {
		return u // no git, or nothing configured
	}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		key, value, _ := strings.Cut(string(entry), "\n")
		switch key {
		case "user.name":
			u.Name = value
		case "user.email":
			u.Email = value
		}
	}
	return u
}
