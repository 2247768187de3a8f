package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
)

// atHome lists the commands that work on a state directory itself, and so only on
// its own machine. A word stands for all its subcommands.
func atHome() []string {
	return []string{
		"recover", "setup", "serve", "mcp", "key init", "key rotate", "key lost", "key trust", "cache", "expire", "auth", "why", "inspect", "support-bundle", "agent add",
		"overlay", "native", "volume",
	}
}

// connect completes the address of the daemon from the environment, refuses commands
// that a daemon cannot carry out, and hands over to the whole program if this one
// cannot talk to a daemon.
func (s *frame) connect(cmd *cobra.Command) error {
	if s.daemon.URL == "" {
		s.daemon.URL = os.Getenv("FORKCELL_URL")
	}
	if s.daemon.URL == "" {
		if s.daemon.TokenFile != "" {
			s.started = true
			return usageError("give --url too", "--token-file is for a daemon")
		}
		return nil
	}
	if s.daemon.TokenFile == "" {
		s.daemon.TokenFile = os.Getenv("FORKCELL_TOKEN_FILE")
	}
	name := verb(cmd)
	for _, local := range atHome() {
		if name == local || strings.HasPrefix(name, local+" ") {
			s.started = true
			return refusal(api.CodeUnsupported, "use it on the machine of the daemon, without --url and FORKCELL_URL",
				"%s works on the state directory itself, not through a daemon", name)
		}
	}
	if s.programs.Remote == nil {
		return s.handOver()
	}
	return nil
}

// openEngine opens the engine that the global flags choose: of a daemon, or of this
// process on a home.
func (s *frame) openEngine(mode Mode) (Engine, func() error, error) {
	if s.daemon.URL == "" {
		return s.open(s.home, mode, s.caller())
	}
	if s.programs.Remote == nil {
		return nil, nil, refusal(api.CodeUnsupported, "`make install` installs it", "talking to a daemon needs %s", wholeProgram)
	}
	return s.programs.Remote(s.daemon, s.home, s.caller())
}
