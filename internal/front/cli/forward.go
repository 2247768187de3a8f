package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxForwarded bounds the connections that are forwarded at the same time; more
// wait until one ends.
const maxForwarded = 64

type portForwarder interface {
	Forward(ctx context.Context, cell string, port int) (func(context.Context, io.ReadWriter) error, error)
}

func newPortForward(s *frame) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "port-forward CELL [LOCAL:]PORT",
		Short: "Make a port of a live cell reachable on the host's loopback",
		Long: `Make a port of a live cell reachable on the host's loopback: connections to
127.0.0.1:LOCAL go to PORT in the cell. Without LOCAL it is the same number; 0 means
any free port. At most 64 connections are forwarded at a time. Ctrl-C ends it.

HTTP is answered under the link that is printed, http://CELL-RANDOM.localhost:LOCAL,
which is new each time. Under localhost and 127.0.0.1 a browser would give the cell
the cookies of every application on this host; such requests are refused with 421.
With --raw every connection is passed on, for other protocols than HTTP.

Every connection is an event of the cell's run. Every user of this host can connect.`,
		Example: `  forkcell port-forward demo 8080
  forkcell port-forward demo 9000:8080
  forkcell port-forward demo 5432 --raw`,
		Args:              positional("CELL", "[LOCAL:]PORT"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			local, port, err := parsePorts(args[1])
			if err != nil {
				return usageError("give PORT or LOCAL:PORT, such as 9000:8080", "%s: %v", verb(cmd), err)
			}
			return s.engine(cmd.Context(), Visit, func(ctx context.Context, e Engine) error {
				return runPortForward(ctx, s, e, args[0], forwarded{local, port, raw})
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "pass on every connection, whatever its protocol and its name")
	return cmd
}

// forwarded is a port of the host and one of a cell; raw connections are not checked.
type forwarded struct {
	local, port int
	raw         bool
}

// parsePorts reads [LOCAL:]PORT.
func parsePorts(text string) (local, port int, err error) {
	first, second, two := strings.Cut(text, ":")
	if !two {
		second = first
	}
	l, lerr := strconv.ParseUint(first, 10, 16)
	p, perr := strconv.ParseUint(second, 10, 16)
	if lerr != nil || perr != nil || p == 0 {
		return 0, 0, fmt.Errorf("bad port %s", quote.Arg(text))
	}
	return int(l), int(p), nil
}

func runPortForward(ctx context.Context, s *frame, e portForwarder, name string, o forwarded) error {
	join, err := e.Forward(ctx, name, o.port)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.local)))
	if err != nil {
		return listenError(err, o.local, o.port)
	}
	defer l.Close()
	doc := struct {
		Cell    string `json:"cell"`
		Address string `json:"address"`
		Port    int    `json:"port"`
		URL     string `json:"url,omitempty"` // not of raw connections
	}{name, l.Addr().String(), o.port, ""}
	f := &forwarding{session: s, listener: l, join: join, what: fmt.Sprintf("port %d of cell %s", o.port, quote.Line(name))}
	shown := doc.Address
	if !o.raw {
		f.host = net.JoinHostPort(pageName(name), strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		doc.URL = "http://" + f.host + "/"
		shown = doc.URL
	}
	err = s.emit(doc, func(p *page) {
		p.printf("forwarding %s to port %d of cell %s; Ctrl-C ends it\n", shown, o.port, quote.Line(name))
	})
	if err = joinErrors(err, s.out.Flush()); err != nil {
		return err
	}
	return f.serve(ctx)
}

func listenError(err error, local, port int) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return refusal(api.CodePortInUse, fmt.Sprintf("choose another one: 0:%d takes any", port), "port %d of 127.0.0.1 is in use", local)
	}
	return fmt.Errorf("listen on port %d: %w", local, err)
}

// forwarding serves the connections of one port until it is cancelled or the
// cell has ended.
type forwarding struct {
	session  *frame
	listener net.Listener
	join     func(context.Context, io.ReadWriter) error
	what     string
	host     string // the name and port of requests; "" for raw connections

	mu  sync.Mutex
	err error // why it ended without being cancelled
}

func (f *forwarding) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = f.listener.Close() })
	defer stop()
	var running sync.WaitGroup
	places := make(chan struct{}, maxForwarded)
	for {
		places <- struct{}{}
		conn, err := f.listener.Accept()
		if err != nil {
			break // this process closed the listener
		}
		running.Go(func() {
			defer func() { <-places }()
			if f.connect(ctx, conn) {
				cancel()
			}
		})
	}
	cancel()
	running.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// connect forwards one connection, and reports whether the cell has ended.
func (f *forwarding) connect(ctx context.Context, conn net.Conn) (over bool) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var stream io.ReadWriter = conn
	var err error
	if f.host != "" {
		stream, err = checkHost(conn, f.host)
	}
	if err == nil {
		err = f.join(ctx, stream)
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return false
	case errors.Is(err, supervise.ErrNoListener):
		f.session.note(f.what + ": nothing listens there")
		return false
	case api.KindOf(err) == api.Busy || codeOf(err) == api.CodeLost:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.err = err
		return true
	}
	f.session.note(f.what + ": " + quote.Line(err.Error()))
	return false
}

func codeOf(err error) api.Code { return bodyOf(err).Code }
