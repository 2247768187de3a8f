package local

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

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
)

// supervisorName is the first argument of the supervisor of a live cell.
const supervisorName = "forkcell-supervisor"

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
// The two exchange JSON documents over a socket pair: the request, the answer, and
// then "true" from the caller to confirm the answer. A supervisor whose caller goes
// away before that undoes the start, so an interrupted start leaves nothing.
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
	// The supervisor must not inherit descriptors that this process inherited.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close_range: %w", err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{supervisorName}
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
		// The supervisor continues without this process. If it ends first, its exit
		// status is collected here, so that a daemon keeps no zombie.
		go func() { _ = cmd.Wait() }()
		return answer, nil
	}
	// The supervisor undoes the start. Wait for that, so that the caller can try
	// again at once after the error.
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
	defer f.Close() // FileConn duplicates it
	return net.FileConn(f)
}

// converse sends the request and reads the answer. If the answer is that the cell
// is ready, it confirms it.
func converse(line io.ReadWriter, request []byte) (answer json.RawMessage, ready bool, err error) {
	if err := json.NewEncoder(line).Encode(json.RawMessage(request)); err != nil {
		return nil, false, err
	}
	if err := json.NewDecoder(line).Decode(&answer); err != nil {
		return nil, false, fmt.Errorf("no answer: %w", err)
	}
	if supervise.IsFailure(answer) {
		return answer, false, nil
	}
	err = json.NewEncoder(line).Encode(true)
	return answer, err == nil, err
}

// supervisorMain is the main function of a supervisor. It returns the exit code
// when the cell has been stopped.
func supervisorMain() int {
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
	h := &startHandshake{line: line, in: json.NewDecoder(line), cancel: cancel, confirmed: make(chan bool, 1)}
	if err := h.supervise(ctx); err != nil {
		h.reportFailure(err)
		return 1
	}
	return 0
}

// startHandshake answers the caller of a start once, and ends the start unless the
// caller confirms the answer.
type startHandshake struct {
	line      net.Conn
	in        *json.Decoder
	cancel    context.CancelFunc
	confirmed chan bool
	answered  bool
}

func (h *startHandshake) supervise(ctx context.Context) error {
	var request json.RawMessage
	if err := h.in.Decode(&request); err != nil {
		return err
	}
	order, err := supervise.DecodeOrder(request)
	if err != nil {
		return err
	}
	go h.awaitConfirmation()
	e, release, err := Open(string(order.Home), Run, engine.OrderCaller(order))
	if err != nil {
		return err
	}
	if order.Branch != nil {
		return errors.Join(e.SuperviseBranches(ctx, order, h.branched), release())
	}
	if order.Resume != nil {
		return errors.Join(e.SuperviseResume(ctx, order, h.answerReady), release())
	}
	return errors.Join(e.Supervise(ctx, order, h.answerReady), release())
}

// awaitConfirmation waits until the caller confirms the answer, or has gone.
func (h *startHandshake) awaitConfirmation() {
	var confirmed bool
	err := h.in.Decode(&confirmed)
	if err != nil || !confirmed {
		h.cancel()
	}
	h.confirmed <- err == nil && confirmed
}

// answerReady answers that the cell is started, and waits for the confirmation.
func (h *startHandshake) answerReady(res *api.StartResult) error {
	return h.confirm(supervise.EncodeAnswer(res, nil))
}

// branched answers that branches of a checkpoint are started, and waits for the
// confirmation.
func (h *startHandshake) branched(res *api.BranchResult) error {
	return h.confirm(supervise.EncodeBranched(res))
}

func (h *startHandshake) confirm(answer []byte, err error) error {
	if err := h.answer(answer, err); err != nil {
		return err
	}
	if !<-h.confirmed {
		return errors.New("the process that started the cell is gone")
	}
	return h.line.Close()
}

// reportFailure answers with an error, unless an answer was sent before.
func (h *startHandshake) reportFailure(err error) {
	if !h.answered {
		_ = h.answer(supervise.EncodeAnswer(nil, err))
	}
}

func (h *startHandshake) answer(answer []byte, err error) error {
	if err != nil {
		return err
	}
	h.answered = true
	_, err = h.line.Write(append(answer, '\n'))
	return err
}
