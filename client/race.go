package client

import (
	"context"
	"net/http"
)

// Race tries commands in forks of the cell, judges the results, and names the best. The
// request need not name the cell. The end of the context ends the race.
func (c *Cell) Race(ctx context.Context, r Race, opts ...CallOption) (*RaceResult, error) {
	r.Cell = c.Name
	in, err := newCall(http.MethodPost, "/v1/race", r, opts)
	if err != nil {
		return nil, err
	}
	return receive[RaceResult](ctx, c.client, in)
}

// Attempts returns attempts of a race that each have a line for the shell.
func Attempts(lines ...string) []RaceAttempt {
	var list []RaceAttempt
	for _, line := range lines {
		list = append(list, RaceAttempt{Command: Shell(line)})
	}
	return list
}
