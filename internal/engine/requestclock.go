package engine

import (
	"sync"
	"time"
)

// requestClock decides which requests with a key are old enough to be forgotten. A
// request that is forgotten too early would be carried out again, so a wall clock that
// was set ahead is believed only after requests made before have had their time by the
// steady clock. One that was set back is believed at once: then they are kept longer.
type requestClock struct {
	mu     sync.Mutex
	wall   time.Time     // what is believed, and
	steady time.Duration // when it was believed; 0 is never
	ahead  time.Duration // since when the wall clock has been ahead of it; 0 is not
}

// clockSlack is by how much a wall clock is corrected without being set.
const clockSlack = time.Minute

// forgetBefore returns the time before which requests are old. steady is the time since
// the system was started.
func (c *requestClock) forgetBefore(wall time.Time, steady time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	believed := c.wall.Add(steady - c.steady)
	ahead := c.steady != 0 && wall.Sub(believed) > clockSlack
	switch {
	case ahead && c.ahead == 0:
		c.ahead = steady
	case !ahead || steady-c.ahead > keepRequests:
		c.wall, c.steady, c.ahead, believed = wall, steady, 0, wall
	}
	return believed.Add(-keepRequests)
}
