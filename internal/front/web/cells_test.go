package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// TestGroupCells: a fork that waits for a decision is listed, and its group is the first,
// however many forks the cell has.
func TestGroupCells(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	list := []api.CellInfo{{Cell: "new", State: api.StateIdle, CreatedAt: now}, {Cell: "old", State: api.StateIdle}}
	for i := range 3 * forksShown {
		list = append(list, api.CellInfo{Cell: fmt.Sprintf("old-%d", i), ForkedFrom: "old", State: api.StateIdle})
	}
	list[len(list)-2].LastDecision = "pending"
	list[len(list)-1].State = "live"
	groups := groupCells(list)
	if len(groups) != 2 || groups[0].Root != "old" {
		t.Fatalf("%+v", groups)
	}
	var names []string
	for _, c := range groups[0].Cells {
		names = append(names, c.Cell)
	}
	if names[0] != "old" || names[1] != "old-73" || names[2] != "old-0" || names[len(names)-1] != "old-74" || len(names)+groups[0].More != 3*forksShown+1 {
		t.Errorf("%d more than %q", groups[0].More, names)
	}
}
