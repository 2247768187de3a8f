package egress

import (
	"errors"
	"time"
)

// gonePeriod is how often the connections of programs that wait for an answer are
// looked at.
const gonePeriod = time.Second

var errGone = errors.New("the program is gone")

// watch makes sure that endGone will be called.
func (p *Proxy) watch() {
	if p.watched.CompareAndSwap(false, true) {
		time.AfterFunc(gonePeriod, p.endGone)
	}
}

// endGone ends the requests of programs that are gone. A program that has only
// ended its sending side still needs its answer.
func (p *Proxy) endGone() {
	p.watched.Store(false)
	var open []*conn
	if !p.enter(func() { open = p.open(); p.wg.Add(1) }) {
		return
	}
	defer p.wg.Done()
	for _, c := range open {
		flights := c.inFlight()
		if len(flights) == 0 {
			continue
		}
		p.watch()
		if isBroken(c.Conn) {
			for _, f := range flights {
				f.cancel(errGone)
			}
		}
	}
}
