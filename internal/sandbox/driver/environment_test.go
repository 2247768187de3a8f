package driver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func TestWithVariables(t *testing.T) {
	t.Parallel()
	got := driver.WithVariables([]string{"A=1", "B=2", "AB=3"}, []string{"A=4", "C=5=6", "A=7", "D="})
	if want := []string{"B=2", "AB=3", "C=5=6", "A=7", "D="}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// Every caller of the API may send as many variables as fit into a body.
	var many []string
	for i := range 200_000 {
		many = append(many, fmt.Sprintf("NAME_%d=value", i))
	}
	begin := time.Now()
	if got := driver.WithVariables(many, many); !slices.Equal(got, many) {
		t.Error("the variables changed")
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
