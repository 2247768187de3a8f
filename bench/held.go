package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	manyConnections = 1000
	// openingAtOnce is how many connections are made at the same time: more
	// would measure the length of a listener's queue.
	openingAtOnce = 64
)

// heldReport counts the connections that were held.
type heldReport struct {
	Asked int `json:"asked"`
	// Open is how many answered a first request, Held how many of them answered
	// a second one when all were open.
	Open    int           `json:"open"`
	Held    int           `json:"held"`
	First   time.Duration `json:"first"`
	Second  time.Duration `json:"second"`
	Problem string        `json:"problem,omitempty"` // the first of them
}

func (h heldReport) took() time.Duration { return h.First + h.Second }

// hold opens connections, makes a request on each, and only when every one has
// its answer a second one.
func (r reach) hold(config *tls.Config, n int) (heldReport, error) {
	base, err := url.Parse(r.URL)
	if err != nil {
		return heldReport{}, err
	}
	h := heldReport{Asked: n}
	dialer := &holder{reach: r, base: base, config: config}
	conns := make([]*heldConn, n)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.conn.Close()
			}
		}
	}()
	var mu sync.Mutex
	each := func(do func(i int) error) (int, time.Duration) {
		good, begin := 0, time.Now()
		_ = inParallel(n, openingAtOnce, func(i int) error {
			err := do(i)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				good++
			} else if h.Problem == "" {
				h.Problem = err.Error()
			}
			return nil
		})
		return good, time.Since(begin)
	}
	h.Open, h.First = each(func(i int) (err error) {
		conns[i], err = dialer.open()
		return err
	})
	h.Held, h.Second = each(func(i int) error {
		if conns[i] == nil {
			return errors.New("it was never open")
		}
		return conns[i].ask()
	})
	return h, nil
}

type holder struct {
	reach  reach
	base   *url.URL
	config *tls.Config
}

type heldConn struct {
	conn    *tls.Conn
	in      *bufio.Reader
	request *http.Request
}

// open makes a connection that has answered once.
func (h *holder) open() (*heldConn, error) {
	addr := h.base.Host
	if !strings.Contains(addr, ":") {
		addr += ":443"
	}
	raw, err := h.reach.dial(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	config := h.config.Clone()
	config.ServerName, config.NextProtos = h.base.Hostname(), []string{"http/1.1"}
	request, err := http.NewRequest(http.MethodGet, h.base.String()+"/"+small, http.NoBody)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	secure := tls.Client(raw, config)
	c := &heldConn{secure, bufio.NewReader(secure), request}
	if err := c.ask(); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return c, nil
}

func (c *heldConn) ask() error {
	if err := c.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if err := c.request.Write(c.conn); err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.in, c.request)
	if err != nil {
		return err
	}
	_, err = drain(answer)
	return err
}

// connections holds many at once, in a cell and directly.
func (b *bench) connections(ctx context.Context) ([]row, error) {
	s, err := b.upstream(ctx)
	if err != nil {
		return nil, err
	}
	var own, direct []time.Duration
	worst := heldReport{Asked: manyConnections, Held: manyConnections}
	for range b.times(3, 1) {
		d, _, err := b.client(ctx, s, b.directly(s), load{Held: manyConnections})
		if err != nil {
			return nil, err
		}
		if d.Held.Held < d.Held.Asked {
			return nil, fmt.Errorf("without a cell only %d of %d connections were held: %s", d.Held.Held, d.Held.Asked, d.Held.Problem)
		}
		o, _, err := b.client(ctx, s, b.inCell(s), load{Held: manyConnections})
		if err != nil {
			return nil, err
		}
		if o.Held.Problem != "" {
			progress("%d of %d connections were held: %s", o.Held.Held, o.Held.Asked, o.Held.Problem)
		}
		if o.Held.Held < worst.Held {
			worst = o.Held
		}
		own, direct = append(own, o.Held.took()), append(direct, d.Held.took())
	}
	return []row{heldRow(worst, median(own), median(direct))}, nil
}

// heldRow is met when every connection was held.
func heldRow(worst heldReport, own, direct time.Duration) row {
	asked := number(worst.Asked)
	return row{
		asked + " connections of one client through an inspecting rule: each answers, stays open and answers again",
		fmt.Sprintf("%s of %s in %s", number(worst.Held), asked, show(own)), show(direct) + " direct",
		fmt.Sprintf("%.2fx", float64(own)/float64(direct)), "all held", verdict(worst.Held == worst.Asked),
	}
}
