// Command forkcell-first is the first process of a daemon's cells and nothing else. The
// daemon holds it in its own program, and executes it in the place of that one, which
// would do the same and starts slower. So do the supervisors of templates that it starts.
// It has no other use.
package main

import (
	"fmt"
	"os"

	_ "github.com/forkcell/forkcell/internal/sandbox/driver/first" // takes over in the first process of a cell
)

func main() {
	fmt.Fprintln(os.Stderr, "forkcell-first: a daemon starts this program as the first process of a cell")
	os.Exit(2)
}
