package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
)

// Programs are the parts of the whole program that a lean build does not have.
// A command whose part is missing hands over to the whole program beside it.
type Programs struct {
	// Archives says that compressed archives can be read and written.
	Archives bool
	Serve    func(ctx context.Context, home string, o api.ServeOptions, stderr io.Writer, ready func([]string) error) error
}

// wholeProgram is the name of the whole program beside a lean one.
const wholeProgram = "forkcell-server"

func newServe(s *session) *cobra.Command {
	var o api.ServeOptions
	cmd := &cobra.Command{
		Use:   "serve [--listen ADDRESS]...",
		Short: "Serve the API to programs",
		Long: `Serve the API to programs: REST, described at /openapi.json.

Without --listen the daemon listens on the socket api.sock in the state directory,
which only the same user and root can use. Commands and the daemon can work on one
state directory at the same time. Live cells outlive the daemon.

SIGTERM ends the daemon: it takes no new requests and waits for those that are being
answered.`,
		Example: `  forkcell serve
  forkcell serve --listen unix:/run/user/1000/forkcell.sock
  curl --unix-socket ~/.local/share/forkcell/api.sock http://localhost/v1/cells`,
		DisableFlagsInUseLine: true,
		Args:                  positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			if s.programs.Serve == nil {
				return s.handOver()
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return s.programs.Serve(ctx, s.home, o, s.streams.Err, s.listening)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Listen, "listen", nil, "listen on `ADDRESS`, as unix:PATH (repeatable)")
	f.StringVar(&o.LogFormat, "log-format", "text", "`FORMAT` of the log on stderr: text or json")
	return cmd
}

// listening reports the addresses of the daemon.
func (s *session) listening(addresses []string) error {
	err := s.emit(struct {
		Listening []string `json:"listening"`
		PID       int      `json:"pid"`
	}{addresses, os.Getpid()}, func(p *page) {
		for _, a := range addresses {
			p.printf("listening on %s\n", quote.Line(a))
		}
	})
	if err != nil {
		return err
	}
	return s.out.Flush()
}

// lacks reports whether only the whole program can read or write this file, which
// may be a directory: archives can be compressed, whatever their name.
func (s *session) lacks(file string) bool {
	if s.programs.Archives {
		return false
	}
	info, err := os.Stat(file)
	return strings.HasSuffix(file, ".zst") || err == nil && info.Mode().IsRegular()
}

// handOver replaces this process by the whole program beside it. It returns only if
// that fails.
func (s *session) handOver() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	whole := filepath.Dir(self) + "/" + wholeProgram
	err = unix.Exec(whole, append([]string{"forkcell"}, s.args...), os.Environ())
	return refusal(api.CodeUnsupported, "`make install` installs it", "this command needs %s beside %s: %v",
		wholeProgram, quote.Path(strings.TrimSuffix(self, " (deleted)")), err)
}
