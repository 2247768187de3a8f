package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/sdk/python"
)

// envWarm makes each driver of a process a warmDriver.
const envWarm = "FORKCELL_TEST_WARM"

const interpreter = "/usr/bin/python3"

// warmCommand is a warm interpreter that runs a script first.
func warmCommand(script string) driver.Command { return warmWith(python.Warm, script) }

func warmWith(module, script string) driver.Command {
	return driver.Command{
		Args: []string{interpreter, "-c", module + "\n" + script}, Workdir: "/", Warm: true,
		Env: []string{"PATH=" + cellinit.DefaultPath, "FORKCELL_WARM_FD=3"},
	}
}

// startWarm starts a template whose interpreter has run a script.
func startWarm(ctx context.Context, n *Driver, script string) (*template, error) {
	return startCommand(ctx, n, warmCommand(script), nil)
}

func startCommand(ctx context.Context, n *Driver, cmd driver.Command, says io.Writer) (*template, error) {
	return startSpec(ctx, n, driver.Spec{ID: "template", Template: true}, cmd, says)
}

func startSpec(ctx context.Context, n *Driver, s driver.Spec, cmd driver.Command, says io.Writer) (*template, error) {
	t, err := n.startTemplate(ctx, s)
	if err != nil {
		return nil, err
	}
	var complaints bytes.Buffer
	if says == nil {
		says = &complaints
	}
	ended := make(chan error, 1)
	go func() {
		o, err := t.Exec(ctx, cmd, driver.Stdio{Err: says})
		ended <- errors.Join(err, fmt.Errorf("the interpreter has ended with code %d: %s", o.Code, complaints.String()))
	}()
	if err := t.AwaitWarm(ctx); err != nil {
		return nil, errors.Join(err, t.Close(), <-ended)
	}
	return t, nil
}

// warmDriver starts cells whose commands are executed by copies of a warm
// interpreter, each in a branch of its own. What a command can do is what a copy can.
type warmDriver struct{ *Driver }

func (d warmDriver) Start(ctx context.Context, s driver.Spec) (driver.Cell, error) {
	if s.AsRoot {
		return d.Driver.Start(ctx, s) // no branch can have that
	}
	t, err := startWarm(ctx, d.Driver, executing)
	if err != nil {
		return nil, err
	}
	return warmCell{t, s}, nil
}

// Run executes a command in a branch.
func (d warmDriver) Run(ctx context.Context, s driver.Spec, stdio driver.Stdio) (out driver.Outcome, err error) {
	if _, err := newOrder(&s.Command, false); err != nil {
		return driver.Outcome{}, err
	}
	t, err := startWarm(ctx, d.Driver, executing)
	if err != nil {
		return driver.Outcome{}, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return warmCell{t, s}.Exec(ctx, s.Command, stdio)
}

// executing makes a copy execute a program.
const executing = `
def execute(number):
    try:
        os.execvpe(*json.loads(os.environ["EXECUTE"]))
    except OSError as error:
        os._exit(100 + error.errno)
serve(execute)
`

// warmCell makes a branch for each command.
type warmCell struct {
	*template
	spec driver.Spec
}

func (c warmCell) Exec(ctx context.Context, cmd driver.Command, stdio driver.Stdio) (driver.Outcome, error) {
	if cmd.TTY {
		return c.beside(ctx, cmd, stdio) // a copy has no terminal
	}
	execute, err := json.Marshal([]any{cmd.Args[0], cmd.Args, variables(cmd.Env)})
	if err != nil {
		return driver.Outcome{}, err
	}
	b := driver.Branch{Spec: c.spec, Number: 1, Stdio: stdio}
	b.Workdir, b.Env = cmd.Workdir, []string{"EXECUTE=" + string(execute)}
	begin := time.Now()
	child, err := c.again(ctx, b)
	if err != nil {
		return driver.Outcome{}, err
	}
	took := time.Since(begin)
	out := child.CopyOutcome()
	out.StartTook, out.Usage = took, child.Usage()
	if out.Code > 100 && out.Code < 128 {
		err = fault.Wrap("exec", fault.CauseNotExecutable, syscall.Errno(out.Code-100))
	}
	return out, errors.Join(err, child.Close())
}

// again makes a branch with the layers of the last one: an overlay that is not synced
// says in its work directory that it must not be mounted again.
func (c warmCell) again(ctx context.Context, b driver.Branch) (driver.Child, error) {
	for _, o := range c.spec.Mounts.Overlays {
		work := filepath.Join(o.Work, "work")
		if err := os.Chmod(work, 0o700); errors.Is(err, os.ErrNotExist) {
			continue // it was not mounted yet
		}
		says := filepath.Join(work, "incompat")
		if err := errors.Join(os.Chmod(says, 0o700), os.Chmod(filepath.Join(says, "volatile"), 0o700), os.RemoveAll(says)); err != nil {
			return nil, err
		}
	}
	return c.Branch(ctx, b)
}

// beside executes a command beside a copy.
func (c warmCell) beside(ctx context.Context, cmd driver.Command, stdio driver.Stdio) (driver.Outcome, error) {
	b := driver.Branch{Spec: c.spec}
	b.Workdir, b.Env = "/", []string{`EXECUTE=["sleep", ["sleep", "infinity"], {"PATH": "/bin:/usr/bin"}]`}
	child, err := c.again(ctx, b)
	if err != nil {
		return driver.Outcome{}, err
	}
	out, err := child.Exec(ctx, cmd, stdio)
	return out, errors.Join(err, child.Close())
}

// TestProbesInBranches attacks from within copies of a warm process.
func TestProbesInBranches(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	s := suite()
	s.Without = nil
	s.Claims = branchClaims(s)
	s.Environment = append(s.Environment, envWarm+"=1")
	t.Logf("%d attacks were shown to fail", s.Probes(t))
}

// TestContractInBranches runs those tests of the suite that are about a cell and not
// about the streams and signals of a command, which a copy does not have.
func TestContractInBranches(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	s := suite()
	s.New = func() driver.Driver { return warmDriver{New(Options{})} }
	s.Claims = append(branchClaims(s), hostClaims(t)...)
	s.Environment = append(s.Environment, envWarm+"=1")
	s.Controls, s.Without = nil, nil // see TestProbesInBranches
	s.Only = []string{
		"ExitStatus", "BadSpec", "Unclaimed", "DaemonDiesWithCommand", "ManyAtOnce", "ExecSharesTheCell",
		"Workspace", "Absent", "Masks", "Network", "LimitOfProcesses", "Killed",
	}
	s.Run(t)
}

// branchClaims are those of the driver but for reports of denied calls: see
// copyControls.
func branchClaims(s drivertest.Suite) []drivertest.Claim {
	return slices.DeleteFunc(s.Claims, func(c drivertest.Claim) bool { return c == drivertest.Reports })
}

func needsInterpreter(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(interpreter); err != nil {
		t.Skip("needs " + interpreter)
	}
}
