package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/cell"
)

// SupervisorName is the first argument by which the program knows that it is the
// supervisor of a live cell.
const SupervisorName = "forkcell-supervisor"

// supervisorEnv are the caller's variables that a supervisor gets, besides
// forkcell's own: it lives long, and cells get nothing from it.
func supervisorEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case name == "HOME", name == "PATH", name == "TMPDIR", name == "LANG", strings.HasPrefix(name, "FORKCELL_"):
			env = append(env, kv)
		}
	}
	return env
}

// launcher starts this program again as a supervisor.
//
// The two talk over a socket pair, one JSON document each: the request, the
// answer, and then "true" from the caller, which has the answer. A supervisor
// whose caller goes away before that undoes what it did: so a start that is
// interrupted leaves nothing.
type launcher struct{}

// Launch implements cell.Launcher.
func (launcher) Launch(ctx context.Context, request []byte) ([]byte, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "supervisor")
	defer theirs.Close()
	line, err := fileConn(pair[0])
	if err != nil {
		return nil, err
	}
	defer line.Close()
	// What this process itself inherited would go on to the supervisor.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close_range: %w", err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{SupervisorName}
	cmd.Env, cmd.Dir = supervisorEnv(), "/"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = line.Close() })()
	_ = theirs.Close()
	answer, ready, err := converse(line, request)
	if ready {
		// It goes on without us, and is init's when we end.
		return answer, cmd.Process.Release()
	}
	// It undoes what it has done, and that is waited for: a caller that has the
	// error can try again at once.
	_ = line.Close()
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, errors.Join(err, ended)
	}
	return answer, nil
}

func fileConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "supervisor's caller")
	defer f.Close() // FileConn has its own
	return net.FileConn(f)
}

// converse gets the answer, and keeps the supervisor if it says that it is ready.
func converse(line io.ReadWriter, request []byte) (answer json.RawMessage, ready bool, err error) {
	if err := json.NewEncoder(line).Encode(json.RawMessage(request)); err != nil {
		return nil, false, err
	}
	if err := json.NewDecoder(line).Decode(&answer); err != nil {
		return nil, false, fmt.Errorf("no answer: %w", err)
	}
	if cell.IsFailure(answer) {
		return answer, false, nil
	}
	err = json.NewEncoder(line).Encode(true)
	return answer, err == nil, err
}

// SupervisorMain is the main of a supervisor. It returns the exit code, when the
// cell has been stopped.
func SupervisorMain() int {
	// The descriptor must not reach the cell.
	unix.CloseOnExec(3)
	line, err := fileConn(3)
	if err != nil {
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &vow{line: line, in: json.NewDecoder(line), cancel: cancel, kept: make(chan bool, 1)}
	if err := v.supervise(ctx); err != nil {
		v.confess(err)
		return 1
	}
	return 0
}

// vow is what a supervisor owes the caller that started it: an answer, and
// nothing left if the caller does not hear it.
type vow struct {
	line   net.Conn
	in     *json.Decoder
	cancel context.CancelFunc
	kept   chan bool
	said   bool
}

func (v *vow) supervise(ctx context.Context) error {
	var request json.RawMessage
	if err := v.in.Decode(&request); err != nil {
		return err
	}
	order, err := cell.DecodeStart(request)
	if err != nil {
		return err
	}
	go v.listen()
	e, release, err := Open(order.Home, Run, order.Caller())
	if err != nil {
		return err
	}
	return errors.Join(e.Supervise(ctx, order, v.ready), release())
}

// listen hears that the caller has the answer, or has gone.
func (v *vow) listen() {
	var heard bool
	err := v.in.Decode(&heard)
	if err != nil || !heard {
		v.cancel()
	}
	v.kept <- err == nil && heard
}

// ready tells the caller and waits until it has heard.
func (v *vow) ready(res *api.StartResult) error {
	if err := v.say(cell.EncodeAnswer(res, nil)); err != nil {
		return err
	}
	if !<-v.kept {
		return errors.New("whoever started the cell has gone")
	}
	return v.line.Close()
}

// confess tells the caller what failed, unless it has its answer.
func (v *vow) confess(err error) {
	if !v.said {
		// Who has gone need not be told.
		_ = v.say(cell.EncodeAnswer(nil, err))
	}
}

func (v *vow) say(answer []byte, err error) error {
	if err != nil {
		return err
	}
	v.said = true
	_, err = v.line.Write(append(answer, '\n'))
	return err
}
