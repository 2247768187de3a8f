package rest

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

const (
	drainLimit     = 30 * time.Second
	interruptLimit = 30 * time.Second
)

// InheritedListener is a listener of a service manager, which keeps it open. A daemon that stops
// closes it first: callers then wait for the next daemon instead of being refused.
type InheritedListener struct{ net.Listener }

// drain counts the requests that are being answered, and the runs that go on after their
// answer, so that a daemon that stops can refuse new requests and wait for these.
type drain struct {
	mu       sync.Mutex
	running  int
	stopping bool
	// ended is closed when the daemon stops and none of them is left.
	ended chan struct{}
}

// admit counts a request until release is called, or refuses it.
func (d *drain) admit() (release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return nil, errDraining()
	}
	d.running++
	return d.release, nil
}

// extend counts work that goes on after the request that began it, until release is
// called. The request must still be counted.
func (d *drain) extend() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running++
	return d.release
}

func (d *drain) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running--; d.stopping && d.running == 0 {
		close(d.ended)
	}
}

// stop refuses all further requests. The channel is closed when the others have ended.
func (d *drain) stop() (ended <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping, d.ended = true, make(chan struct{})
	if d.running == 0 {
		close(d.ended)
	}
	return d.ended
}

// isStopping reports whether the daemon stops.
func (d *drain) isStopping() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopping
}

func errDraining() error {
	return &api.Error{Kind: api.Busy, Code: api.CodeDraining, Message: "the daemon is stopping", Hint: "try again later"}
}

// admitRequest counts a request until release is called. A daemon that stops refuses it, unless
// it belongs to a request that is being answered, or asks how the daemon is.
func (s *Server) admitRequest(w http.ResponseWriter, r *http.Request) (release func(), err error) {
	if p, _ := r.Context().Value(peerKey).(peer); p.inside {
		return func() {}, nil
	}
	switch r.URL.Path {
	case "/healthz", "/readyz", "/version", "/metrics":
		return func() {}, nil
	}
	if release, err = s.drain.admit(); err != nil {
		w.Header().Set("Connection", "close") // the next one may reach another daemon
	}
	return release, err
}

// end stops the server: it refuses new requests and waits for those that are being
// answered, and for runs. What takes too long is interrupted; callers who wait still get
// their answer.
func (s *Server) end(srv *http.Server) error {
	ended := s.drain.stop()
	s.close()
	waitAtMost(ended, s.config.DrainLimit, drainLimit)
	s.stop()
	limit, cancel := context.WithTimeout(context.Background(), cmp.Or(s.config.InterruptLimit, interruptLimit))
	defer cancel()
	select {
	case <-ended: // Shutdown does not wait for sockets
	case <-limit.Done():
	}
	err := srv.Shutdown(limit)
	if err != nil {
		err = srv.Close()
	}
	s.jobs.all.Wait()
	return err
}

// waitAtMost waits for done, but no longer than a limit; 0 is the usual one.
func waitAtMost(done <-chan struct{}, limit, usual time.Duration) {
	if limit == 0 {
		limit = usual
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// closeInherited closes the listeners of a service manager.
func closeInherited(listeners []net.Listener) (err error) {
	for _, l := range listeners {
		if _, ok := l.(InheritedListener); ok {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}
