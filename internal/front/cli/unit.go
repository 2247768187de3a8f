package cli

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

const units = `# forkcell.socket
[Unit]
Description=Forkcell API

[Socket]
ListenStream=%t/forkcell.sock
SocketMode=0600

[Install]
WantedBy=sockets.target

# forkcell.service
[Unit]
Description=Forkcell daemon
Requires=forkcell.socket

[Service]
Type=notify
# A system service has no HOME, and the operator's configuration is beneath it.
Environment="HOME=%h" "FORKCELL_HOME=$HOME"
ExecStart="$PROGRAM" serve
ExecReload=/bin/kill -HUP $MAINPID
# Live cells outlive the daemon.
KillMode=process
# Requests under way may take 30 seconds, and to interrupt them another 30.
TimeoutStopSec=90
# Limits of cells need control groups with every controller.
Delegate=yes
Restart=on-failure
# Sooner, a daemon that cannot start would use up its starts, and the socket would be given up too.
RestartSec=3

[Install]
WantedBy=default.target
`

// printUnit prints the units of a service, for the state directory of this command.
func (s *frame) printUnit(cmd *cobra.Command) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	home := "%h/.local/share/forkcell"
	if dir := cmp.Or(s.home, os.Getenv("FORKCELL_HOME")); dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return err
		}
		home = unitText(dir)
	}
	text := strings.NewReplacer("$HOME", home, "$PROGRAM", unitText(self)).Replace(units)
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

// unitText returns a text as it stands between double quotes in a unit.
func unitText(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(text)
}
