package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/quote"
)

// callerInfo describes this process's caller to the cell's commands.
func callerInfo(u gitUser) cell.CallerInfo {
	return cell.CallerInfo{SearchPath: os.Getenv("PATH"), GitName: u.name, GitEmail: u.email}
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// onHost says where the host has a command that a cell does not, and which path
// would show it; "" where the host does not have it either.
func onHost(name string) (found, show string) {
	if name == "" || strings.Contains(name, "/") {
		return "", ""
	}
	found, err := exec.LookPath(name)
	if err != nil || !filepath.IsAbs(found) {
		return "", ""
	}
	real, err := filepath.EvalSymlinks(found)
	if err != nil {
		return "", ""
	}
	show = filepath.Dir(real)
	// A program needs its own tree, not a directory of many other things.
	if above := filepath.Dir(show); filepath.Base(show) == "bin" && !tooWide(above) {
		show = above
	}
	if tooWide(show) {
		return found, ""
	}
	return found, show
}

// tooWide reports whether a directory holds much besides a program.
func tooWide(dir string) bool {
	home, _ := os.UserHomeDir()
	return dir == "/" || filepath.Dir(dir) == "/" || home != "" && (dir == home || dir == home+"/.local")
}

// whereOnHost is the line about a command that was not found.
func whereOnHost(name string) string {
	found, show := onHost(name)
	if found == "" {
		return ""
	}
	line := quote.Arg(name) + " is " + quote.Path(found) + " on the host"
	if show != "" {
		line += "; --ro " + quote.Arg(show) + " shows it in the cell"
	}
	return line
}
