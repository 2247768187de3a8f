package sshagent

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits bound what programs can use of the host.
type limits struct {
	// connections are served at a time. Others wait to be accepted.
	connections int
	// idle is how long a connection may wait before the next request, and message how
	// long a request may take to arrive and its answer to leave.
	idle, message time.Duration
	// rate and burst bound the connections and their requests, together. Others wait.
	rate  rate.Limit
	burst int
}

func defaultLimits() limits {
	return limits{connections: 32, idle: 2 * time.Minute, message: 10 * time.Second, rate: 20, burst: 200}
}

// maxMessage bounds a request.
const maxMessage = 16 << 10

// Serve serves the connections of a listener until it is closed or ctx ends. It closes
// the listener, and returns when all connections have ended. who returns the number and
// the executable of the program that opened a connection, or 0 and "".
func (a *Agent) Serve(ctx context.Context, l net.Listener, who func(net.Conn) (int, string)) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	free := make(chan struct{}, a.limits.connections)
	pace := rate.NewLimiter(a.limits.rate, a.limits.burst)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			return
		}
		wait.Go(func() {
			defer func() { <-free }()
			defer conn.Close()
			if pace.Wait(ctx) != nil {
				return
			}
			c := &connection{agent: a}
			c.pid, c.binary = who(conn)
			c.serve(ctx, conn, pace)
		})
	}
}

// serve serves one connection until it fails.
func (c *connection) serve(ctx context.Context, conn net.Conn, pace *rate.Limiter) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for {
		message, err := c.agent.receive(conn)
		if errors.Is(err, errTooLarge) {
			c.reportDecision(Decision{Reason: err.Error()})
		}
		if err != nil || pace.Wait(ctx) != nil {
			return
		}
		reply := c.answer(ctx, message)
		if err := c.agent.send(conn, reply); err != nil {
			return
		}
	}
}

var errTooLarge = errors.New("a request that is empty or too large")

func (a *Agent) receive(conn net.Conn) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(a.limits.idle)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size == 0 || size > maxMessage {
		return nil, errTooLarge
	}
	if err := conn.SetReadDeadline(time.Now().Add(a.limits.message)); err != nil {
		return nil, err
	}
	message := make([]byte, size)
	_, err := io.ReadFull(conn, message)
	return message, err
}

func (a *Agent) send(conn net.Conn, reply []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(a.limits.message)); err != nil {
		return err
	}
	_, err := conn.Write(frame(reply))
	return err
}

// frame prefixes a message with its length.
func frame(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}
