package engine

import (
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// leastTurn is the least time of TurnRequest.
const leastTurn = time.Second

// checkTurns refuses a request for turns that no cell can meet.
func checkTurns(q api.StartRequest) error {
	if q.Turns == nil {
		return nil
	}
	if q.Turns.Every < 0 || q.Turns.Quiet < 0 || q.Turns.Every > 0 && q.Turns.Every < leastTurn {
		return api.Usagef("give at least 1s", "a turn cannot be taken that often")
	}
	if q.Warm != nil {
		return api.Usagef("leave one of the two out", "a warm template takes no turns")
	}
	return nil
}
