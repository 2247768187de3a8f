package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Programs are the parts of the whole program that a lean build does not have.
// A command whose part is missing hands over to the whole program beside it.
type Programs struct {
	// Archives says that compressed archives can be read and written.
	Archives bool
	Serve    func(ctx context.Context, home string, o api.ServeOptions, stderr io.Writer, ready func([]string) error) error
	// Remote opens the engine of a daemon.
	Remote func(o api.DaemonOptions, home string, caller caller.Caller) (Engine, func() error, error)
	MCP    func(ctx context.Context, home string, o api.MCPOptions, in io.Reader, out io.Writer) error
	// UI shows a link to the pages of a daemon.
	UI func(ctx context.Context, home string, o api.UIOptions, stderr io.Writer, shown func(link string, serving bool) error) error
}

// wholeProgram is the name of the whole program beside a lean one.
const wholeProgram = "forkcell-server"

func newServe(s *frame) *cobra.Command {
	var o api.ServeOptions
	var unit bool
	cmd := &cobra.Command{
		Use:   "serve [--listen ADDRESS]...",
		Short: "Serve the API to programs",
		Long: `Serve the API to programs: REST, described at /openapi.json.

Without --listen the daemon listens on the socket api.sock in the state directory,
which only the same user and root can use. Commands and the daemon can work on one
state directory at the same time. Live cells outlive the daemon.

Over TCP every caller needs a token of forkcell token create. Without TLS the daemon
listens on loopback only. Callers with a token name no path of the host, except below
--allow-source.

SIGTERM ends the daemon: it takes no new requests and waits up to 30 s for those that
are being answered and for runs, then interrupts them. SIGHUP makes it read tokens and
certificates again.`,
		Example: `  forkcell serve
  forkcell serve --listen unix:/run/user/1000/forkcell.sock
  forkcell serve --listen 0.0.0.0:7070 --tls-cert cert.pem --tls-key key.pem --host cells.example.com
  forkcell serve --systemd
  curl --unix-socket ~/.local/share/forkcell/api.sock http://localhost/v1/cells`,
		DisableFlagsInUseLine: true,
		Args:                  positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			if s.programs.Serve == nil {
				return s.handOver()
			}
			if unit {
				return s.printUnit(cmd)
			}
			// SIGHUP reloads tokens and certificates.
			o.CredentialsFile = credentialsFile()
			host := s.host()
			o.Operator = api.Operator{Config: host.Config, Home: host.Home, Env: host.Env, Path: host.Path}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			return s.programs.Serve(ctx, s.home, o, s.streams.Err, s.listening)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Listen, "listen", nil, "listen on `ADDRESS`, as unix:PATH or HOST:PORT (repeatable)")
	f.StringVar(&o.TLSCert, "tls-cert", "", "serve TLS with the certificate in this `FILE`")
	f.StringVar(&o.TLSKey, "tls-key", "", "the private key of the certificate, in this `FILE`")
	f.StringVar(&o.Tokens, "tokens", "", "also take the tokens in this `FILE`, which token create --print-entry makes")
	f.StringArrayVar(&o.AllowSource, "allow-source", nil, "let callers with a token name this `DIR` of the host and what is below it (repeatable)")
	f.StringArrayVar(&o.AllowAgents, "allow-agent", nil, "let callers with a token start this coding agent of the host, by `NAME` (repeatable)")
	f.BoolVar(&o.AllowPublish, "allow-publish", false, "let callers with a token publish accepted work with your name, key and logins")
	f.StringArrayVar(&o.Hosts, "host", nil, "let callers over TCP address the daemon by this `NAME` (repeatable)")
	f.IntVar(&o.MaxLive, "max-live", 0, "at most `N` live cells at once, 0 for no limit")
	f.IntVar(&o.MaxRuns, "max-runs", 0, "at most `N` runs at once, 0 for no limit")
	f.BoolVar(&unit, "systemd", false, "print units for systemd, with socket activation, and serve nothing")
	f.StringVar(&o.LogFormat, "log-format", "text", "`FORMAT` of the log on stderr: text or json")
	return cmd
}

// listening reports the addresses of the daemon.
func (s *frame) listening(addresses []string) error {
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
func (s *frame) lacks(file string) bool {
	if s.programs.Archives {
		return false
	}
	info, err := os.Stat(file)
	return strings.HasSuffix(file, ".zst") || err == nil && info.Mode().IsRegular()
}

// handOver replaces this process by the whole program beside it. It returns only if
// that fails.
func (s *frame) handOver() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	whole := filepath.Dir(self) + "/" + wholeProgram
	err = unix.Exec(whole, append([]string{"forkcell"}, s.args...), os.Environ())
	return refusal(api.CodeUnsupported, "`make install` installs it", "this command needs %s beside %s: %v",
		wholeProgram, quote.Path(strings.TrimSuffix(self, " (deleted)")), err)
}
