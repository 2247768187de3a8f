package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// daemonName is the first argument of a daemon in a process of its own.
const daemonName = "forkcell-test-daemon"

// daemonMain serves a home until it gets SIGTERM, or is killed. SIGUSR1 lets it report
// what it holds.
func daemonMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	go func() {
		for range asked {
			_ = report() // who asked is gone
		}
	}()
	if os.Getenv("LISTEN_FDS") != "" {
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())) // as a service manager does
	}
	o := api.ServeOptions{Listen: append([]string{"unix:" + filepath.Join(os.Args[1], daemon.SocketName)}, os.Args[2:]...)}
	err := daemon.Serve(ctx, os.Args[1], o, os.Stderr, func(at []string) error {
		_, err := fmt.Println("listening " + strings.Join(at, " "))
		return err
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// daemonProcess is a daemon that can be killed.
type daemonProcess struct {
	*testDaemon
	cmd  *exec.Cmd
	said *bufio.Reader
	env  []string // variables besides those of the test
	// inherit are the sockets that the daemon gets from its service manager.
	inherit []*os.File
}

// launch starts the daemon. It listens on its socket, and on addresses.
func (d *daemonProcess) launch(addresses ...string) {
	d.Helper()
	d.cmd = exec.Command("/proc/self/exe", append([]string{d.home}, addresses...)...)
	d.cmd.Args[0], d.cmd.Env = daemonName, append(os.Environ(), d.env...)
	if d.cmd.ExtraFiles = d.inherit; len(d.inherit) > 0 {
		d.cmd.Env = append(d.cmd.Env, fmt.Sprintf("LISTEN_FDS=%d", len(d.inherit)))
	}
	d.cmd.Stderr = d.log()
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		d.Fatal(err)
	}
	d.said = bufio.NewReader(out)
	line, err := d.said.ReadString('\n')
	at, ok := strings.CutPrefix(line, "listening ")
	if err != nil || !ok {
		d.Fatal("the daemon did not start: ", line, err)
	}
	d.addresses = strings.Fields(at)
}

// log returns a file for what the daemon logs. A test that fails shows it.
func (d *daemonProcess) log() *os.File {
	d.Helper()
	f, err := os.Create(filepath.Join(d.TempDir(), "log"))
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		if text, err := os.ReadFile(f.Name()); d.Failed() {
			d.Logf("the daemon logged %s, %v", text, err)
		}
		_ = f.Close()
	})
	return f
}

// terminate ends the daemon as a service manager does.
func (d *daemonProcess) terminate() {
	d.Helper()
	d.client.CloseIdleConnections()
	if err := d.cmd.Process.Signal(unix.SIGTERM); err != nil {
		d.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.Error("the daemon ended with", err)
	}
}

func (d *daemonProcess) kill() {
	d.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		d.Fatal(err)
	}
	_ = d.cmd.Wait()
	d.client.CloseIdleConnections()
}

// TestKilledDaemon sends requests with keys while the daemon is killed and started
// again. Every request is repeated until it is answered, and is carried out once.
func TestKilledDaemon(t *testing.T) {
	t.Parallel()
	cells, perCell, kills, pause := 4, 25, 6, 500*time.Millisecond
	if *soakLength > time.Minute {
		cells, perCell, kills, pause = 10, 1000, 20, 10*time.Second
	}
	d := &daemonProcess{testDaemon: newDaemon(t)}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.launch()
	for i := range cells {
		d.cell(fmt.Sprintf("c%d", i))
	}
	var left atomic.Int64
	left.Store(int64(cells))
	var senders sync.WaitGroup
	for i := range cells {
		senders.Go(func() {
			defer left.Add(-1)
			for n := range perCell {
				d.persist(fmt.Sprintf("c%d", i), n)
			}
		})
	}
	for range kills {
		if left.Load() == 0 {
			break
		}
		<-time.After(pause/5 + time.Duration(rand.Int64N(int64(pause)))) // a random moment is the purpose
		d.kill()
		d.launch()
	}
	senders.Wait()
	for i := range cells {
		var out api.RunAnswer
		d.want(200, &out, "POST", fmt.Sprintf("/v1/cells/c%d/runs", i), api.RunBody{Command: []string{"sh", "-c", "cat done; ls"}})
		lines := strings.Count(out.Stdout, "request ")
		if lines > perCell {
			t.Errorf("c%d: %d requests were carried out, %d were sent: %s", i, lines, perCell, out.Stdout)
		}
	}
	d.noneLost(cells * perCell)
	var list api.List[api.CellInfo]
	d.want(200, &list, "GET", "/v1/cells", nil)
	if len(list.Items) != cells {
		t.Errorf("%d cells, %d were made", len(list.Items), cells)
	}
	var verified api.ReceiptVerifyResult
	d.want(200, &verified, "POST", "/v1/receipts/verify", api.ReceiptVerifyRequest{All: true})
	if !verified.OK {
		t.Errorf("%+v", verified.Problems)
	}
	d.kill()
}

// persist sends one request until it is answered.
func (d *daemonProcess) persist(cell string, n int) {
	text := fmt.Sprintf(`{"command":["sh","-c","echo request %d >> done"],"wait":"1m"}`, n)
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); <-time.After(time.Millisecond) {
		req, err := http.NewRequest("POST", "http://localhost/v1/cells/"+cell+"/runs", strings.NewReader(text))
		if err != nil {
			d.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d", n))
		resp, err := d.client.Do(req)
		if err != nil {
			continue // the daemon is dead just now
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			continue
		}
		if resp.StatusCode == http.StatusOK {
			return
		}
		if resp.StatusCode != http.StatusConflict && resp.StatusCode != http.StatusAccepted {
			d.Errorf("%s request %d: %d %s", cell, n, resp.StatusCode, body)
			return
		}
	}
	d.Errorf("%s request %d was not answered", cell, n)
}

// noneLost checks that every request has one run, and that nothing is left over.
func (d *daemonProcess) noneLost(requests int) {
	d.Helper()
	runs := d.allRuns()
	seen, interrupted := map[string]int{}, 0
	for _, r := range runs {
		if r.Outcome == "interrupted" {
			interrupted++
		}
		if r.State != "ended" {
			d.Errorf("%+v", r)
		}
		if len(r.Command) == 3 && strings.Contains(r.Command[2], "request") {
			seen[r.Cell+r.Command[2]]++
		}
	}
	for what, n := range seen {
		if n != 1 {
			d.Errorf("%s: %d runs", what, n)
		}
	}
	d.Logf("%d runs, %d interrupted", len(runs), interrupted)
	if len(seen) != requests {
		d.Errorf("%d requests have a run, %d were sent", len(seen), requests)
	}
	// A daemon that dies right after it has recorded a run leaves its directory to gc.
	d.want(200, nil, "POST", "/v1/gc", api.GCBody{})
	pending, err := os.ReadDir(filepath.Join(d.home, "pending"))
	if err != nil && !errors.Is(err, os.ErrNotExist) || len(pending) > 0 {
		d.Errorf("left over: %v, %v", pending, err)
	}
}

// allRuns lists the runs of the home.
func (d *daemonProcess) allRuns() (runs []api.RunInfo) {
	d.Helper()
	for cursor := ""; ; {
		var page api.List[api.RunInfo]
		d.want(200, &page, "GET", "/v1/runs?limit=1000"+cursor, nil)
		runs = append(runs, page.Items...)
		if page.Next == nil {
			return runs
		}
		cursor = "&cursor=" + *page.Next
	}
}
