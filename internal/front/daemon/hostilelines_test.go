package daemon_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/front/cli"
)

// hostileLines are command lines that talk to a daemon. DIR is a directory.
func hostileLines() []string {
	return strings.Split(strings.TrimSpace(`
init demo --from DIR/source
refresh demo
run demo -- true
run --dry-run demo -- true
try --from DIR/source -- true
checkpoint demo
restore demo
fork demo --name other
race demo -n 2 -- true
race demo --choose 1
accept demo
accept demo --apply
reject demo
apply demo --to DIR/target
apply demo --undo
publish demo --branch work/x
diff demo
diff demo --stat
diff demo --name-status
export demo -o DIR/out
export demo --changes -o DIR/out.tar
agent list
agent check claude
agent show claude
agent claude
session list
session show demo
session diff demo
session timeline demo
session turns demo
session rewind demo 1
session send demo text
session attach demo
session stop demo
session accept demo
session publish demo
session verify demo
session export demo
session export demo --format ocsf
session delete demo
start demo
stop demo
pause demo
resume demo
warm python demo
branch demo -n 1
eval demo 1
exec demo -- true
shell demo
ps demo
cp demo:f DIR
cp DIR/source demo:x
receipt list
receipt show rcpt_1
receipt show --cell demo --format dsse
receipt verify --all
receipt export rcpt_1 -o DIR/bundle
decisions list
decisions show dec_1
events query
events tail demo
policy show demo
policy list
policy suggest demo
policy apply demo DIR/policy.yaml
policy diff demo other
policy explain demo --host example.com:443
policy validate DIR/policy.yaml
key show
key init
key rotate
key trust DIR/key.pem
verify demo
verify demo --all
recover
cache ls
cache promote demo
cache rm standard
ls
status demo
set demo --ttl 1h
log demo
graph
graph --format dot
rename demo other
rm demo
rm demo --undo
df
df demo
usage
expire
gc
doctor
inspect
ui --no-open
ui --cell demo --no-open
logs demo
logs demo -f
session logs demo
session logs demo -f
token list
token create --name a --scope read
token revoke a
`), "\n")
}

// unreached are the commands that ask no daemon. TestHostileForward has the port.
var unreached = []string{
	"auth init", "auth set", "auth status", "auth unset", "agent add", "completion", "man", "mcp", "serve", "setup", "support-bundle", "version", "help",
	"why", "port-forward", "native", "overlay", "volume",
}

// printsOutput are the commands that print the output of a command: without a terminal
// byte for byte, so a terminal is what they get.
var printsOutput = regexp.MustCompile(`^(session )?logs `)

// manyLines are the commands that print texts of several lines.
var manyLines = regexp.MustCompile(`^(logs|session logs|eval|policy show|policy suggest|receipt show|agent show|key show|diff|session diff|try) ?`)

// TestHostileAnswersAreWhole: each command is in the list, or in that of those that ask
// no daemon.
func TestHostileAnswersAreWhole(t *testing.T) {
	t.Parallel()
	root := cli.New(nil, cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, "v")
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "forkcell ")
		if slices.ContainsFunc(unreached, func(u string) bool { return path == u || strings.HasPrefix(path, u+" ") }) {
			return
		}
		tried := slices.ContainsFunc(hostileLines(), func(line string) bool { return line == path || strings.HasPrefix(line, path+" ") })
		if !c.HasSubCommands() && !tried {
			t.Errorf("forkcell %s is not tried with a hostile daemon", path)
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(root)
}
