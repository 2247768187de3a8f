package network

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/names"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// service serves the sockets of one cell.
type service struct {
	sockets driver.Captured
	proxy   *egress.Proxy
	dns     *names.Server
	agent   Agent // nil if there is none
	wait    sync.WaitGroup
}

func (s *service) begin() {
	// If one of these fails the cell has no network any more: its connections
	// wait or are refused. They cannot bypass the gateway.
	for _, l := range s.sockets.Connections {
		s.wait.Go(func() { _ = s.proxy.Serve(context.Background(), l) })
	}
	for _, l := range s.sockets.Names {
		s.wait.Go(func() { _ = s.dns.ServeTCP(l) })
	}
	for _, c := range s.sockets.Queries {
		s.wait.Go(func() { _ = s.dns.ServeUDP(c) })
	}
	if s.agent != nil && s.sockets.Local != nil {
		s.wait.Go(func() { s.agent.Serve(context.Background(), s.sockets.Local, s.peer) })
	}
}

// peer returns the program that opened a connection to the agent, for events.
func (s *service) peer(c net.Conn) (int, string) {
	p, err := s.sockets.Origin.Peer(c)
	if err != nil {
		return 0, ""
	}
	return p.PID, p.Binary
}

// drainLimit is the time limit for sending the last data of a cell's programs.
const drainLimit = time.Second

// end ends every connection and returns when nothing is served any more. Errors
// of closing are ignored: the cell is gone.
func (s *service) end() {
	s.proxy.Drain(drainLimit)
	s.sockets.Close()
	_ = s.proxy.Close()
	s.wait.Wait()
	s.dns.Finish()
}
