package cell

import (
	"fmt"
	"strings"
)

// hiddenByName is a degradation of every run in a live directory with files that
// are left out: the masks on them hold against the cell, not against the host.
const hiddenByName = "left-out files of a live directory are hidden by name"

// masked notes that.
func (r *run) masked() {
	if len(r.spec.Mounts.Masks) > 0 {
		r.degraded = append(r.degraded, hiddenByName)
	}
}

// lookBehindMasks notes which left-out files the host has changed while the cell
// could see their names.
func (r *run) lookBehindMasks() {
	const shown = 5
	paths, err := r.work.Uncovered()
	if err != nil {
		r.degraded = append(r.degraded, "it is not known whether left-out files could be seen: "+err.Error())
		return
	}
	if len(paths) == 0 {
		return
	}
	more := ""
	if n := len(paths) - shown; n > 0 {
		paths, more = paths[:shown], fmt.Sprintf(", and %d more", n)
	}
	r.degraded = append(r.degraded, "left-out files changed during the run, and may have been seen: "+strings.Join(texts(paths), ", ")+more)
}
