package native

import (
	"strconv"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
)

// Refused counts what the cell has sent to where nothing is: see driver.Outcome.
func (c *Cell) Refused() int64 {
	return cellinit.RefusedAttempts("/proc/" + strconv.Itoa(c.pid) + "/net")
}
