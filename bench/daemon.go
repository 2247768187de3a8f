package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// daemon is a served home of its own, and a client that keeps its connections.
type daemon struct {
	b      *bench
	cmd    *exec.Cmd
	client *http.Client
}

// runsTrue is the body of a request that runs true.
var runsTrue = map[string]any{"command": []string{"true"}}

// serve returns the daemon, which is started when it is first needed. It has a cell
// that is called after the shape of its files.
func (b *bench) serve(ctx context.Context, s shape) (*daemon, error) {
	if b.daemon != nil {
		return b.daemon, nil
	}
	home := filepath.Join(b.work, "served")
	cmd := b.command(ctx, b.work, b.program, "serve")
	cmd.Env = append(cmd.Env, "FORKCELL_HOME="+home)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.daemon = &daemon{b: b, cmd: cmd, client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(home, "api.sock"))
		},
	}}}
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "listening on ") {
		return nil, fmt.Errorf("the daemon said %q: %w", line, err)
	}
	return b.daemon, b.daemon.do(ctx, "POST", "/v1/cells", map[string]any{"name": s.name, "source": map[string]any{"path": b.tree(s)}}, nil)
}

// end ends the daemon.
func (d *daemon) end() error {
	return errors.Join(d.cmd.Process.Signal(syscall.SIGTERM), d.cmd.Wait())
}

// do sends a request, and reads its answer into doc, if there is one.
func (d *daemon) do(ctx context.Context, method, path string, body, doc any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://forkcell"+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := d.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, answer)
	}
	if err == nil && doc != nil {
		err = json.Unmarshal(answer, doc)
	}
	return err
}

// timeRequest sends a request and returns how long it took.
func (d *daemon) timeRequest(ctx context.Context, method, path string, body any) (time.Duration, error) {
	begin := time.Now()
	err := d.do(ctx, method, path, body, nil)
	return time.Since(begin), err
}

// run runs true, and fails unless the command succeeded.
func (d *daemon) run(ctx context.Context, cell string) (time.Duration, error) {
	var doc struct {
		Outcome   string `json:"outcome"`
		ReceiptID string `json:"receipt_id"`
	}
	begin := time.Now()
	err := d.do(ctx, "POST", "/v1/cells/"+cell+"/runs", runsTrue, &doc)
	took := time.Since(begin)
	if err == nil && (doc.Outcome != "succeeded" || doc.ReceiptID == "") {
		err = fmt.Errorf("the run in %s is %s, with the receipt %q", cell, doc.Outcome, doc.ReceiptID)
	}
	return took, err
}

// besideBwrap takes turns with bubblewrap. What one side leaves to be done, such as
// the end of its namespaces, or processes that the daemon starts for the next run,
// is given time before the other begins.
func (d *daemon) besideBwrap(ctx context.Context, what string, own func() (time.Duration, error), limit float64) ([]row, error) {
	var owns, peers []time.Duration
	for i := range d.b.times(60, 20) {
		err := inTurns(i, func() error {
			time.Sleep(rest)
			took, err := own()
			owns = append(owns, took)
			return err
		}, func() error {
			time.Sleep(rest)
			took, err := d.b.peer(ctx, "bwrap", bwrap()...)
			peers = append(peers, took)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return []row{ratioRow(what, "`bwrap --unshare-all true`", median(owns), median(peers), limit)}, nil
}

// rest is the time between two measurements.
const rest = 20 * time.Millisecond

func (b *bench) daemonRun(ctx context.Context, s shape) ([]row, error) {
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	return d.besideBwrap(ctx, "a run of `true` through the daemon, all controls on, durable signed receipt",
		func() (time.Duration, error) { return d.run(ctx, s.name) }, 1.2)
}

func (b *bench) daemonGet(ctx context.Context, s shape) ([]row, error) {
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for range b.times(1000, 300) {
		t, err := d.timeRequest(ctx, "GET", "/v1/cells/"+s.name, nil)
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	m := median(took)
	return []row{limitRow("`GET` of a cell, p50", show(m), "below 300 µs", m < 300*time.Microsecond)}, nil
}

func (b *bench) daemonExec(ctx context.Context, s shape) (_ []row, err error) {
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := d.do(ctx, "POST", "/v1/cells/"+s.name+"/start", map[string]any{}, nil); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop(ctx, s.name)) }()
	return d.besideBwrap(ctx, "`exec` of `true` in a live cell through the daemon",
		func() (time.Duration, error) {
			return d.timeRequest(ctx, "POST", "/v1/cells/"+s.name+"/exec", runsTrue)
		}, 0.5)
}

func (d *daemon) stop(ctx context.Context, cell string) error {
	return d.do(ctx, "POST", "/v1/cells/"+cell+"/stop", map[string]any{"grace": "0s"}, nil)
}

// daemonHundred makes 100 forks and runs true in each, 8 at a time.
func (b *bench) daemonHundred(ctx context.Context, s shape) ([]row, error) {
	d, err := b.serve(ctx, s)
	if err != nil {
		return nil, err
	}
	const n, width = 100, 8
	var own, peer []time.Duration
	for i := range b.times(5, 2) {
		name := fmt.Sprintf("many%d", i)
		begin := time.Now()
		if err := d.do(ctx, "POST", "/v1/cells/"+s.name+"/fork", map[string]any{"name": name, "n": n}, nil); err != nil {
			return nil, err
		}
		err := inParallel(n, width, func(k int) error {
			_, err := d.run(ctx, fmt.Sprintf("%s-%d", name, k+1))
			return err
		})
		own = append(own, time.Since(begin))
		if err != nil {
			return nil, err
		}
		time.Sleep(rest)
		begin = time.Now()
		err = inParallel(n, width, func(int) error {
			_, err := b.peer(ctx, "bwrap", bwrap()...)
			return err
		})
		peer = append(peer, time.Since(begin))
		if err != nil {
			return nil, err
		}
		time.Sleep(rest)
	}
	return []row{ratioRow("100 forks that each run `true` through the daemon, 8 at a time, the forking included", "`bwrap`, 100 times, 8 at a time", median(own), median(peer), 1.5)}, nil
}
