package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// caller describes the person who started this process.
func (s *frame) caller() caller.Caller {
	dir, _ := os.Getwd() // without it, no relative path exists
	host := s.host()
	return caller.Caller{
		Actor: sync.OnceValue(actor), Dir: dir, Home: host.Home, Env: host.Env, CommandLine: true,
		Git: s.gitUser, Progress: s.reportProgress,
	}
}

// actor returns the name of the user of this process.
func actor() string {
	uid := os.Geteuid()
	name := "unknown"
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		name = u.Username
	}
	return fmt.Sprintf("%s (uid %d)", name, uid)
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// onHost returns the path on the host of a command that a cell does not have, and
// the path to show for it; "" if the host does not have it either.
func onHost(name string) (found, show string) {
	if name == "" || strings.Contains(name, "/") {
		return "", ""
	}
	found, err := hosttool.In(os.Getenv("PATH"), nil).Look(name) // it is not started
	if err != nil {
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

// whereOnHost returns a line about a command that was not found.
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
