package local

import (
	"context"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/shim"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/sandbox/incell/files"
	"github.com/forkcell/forkcell/internal/sandbox/incell/forward"
	"github.com/forkcell/forkcell/internal/sandbox/incell/ready"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// Helper does the work of the processes that the program starts from its own file
// under other names, and returns their exit code. It reports false if this process is
// none of them. They must do nothing else first.
func Helper() (code int, is bool) {
	switch {
	case os.Args[0] == "forkcell-reader":
		fsx.ServeReader()
		return 0, true
	case os.Args[0] == supervisorName:
		return supervisorMain(), true
	case supervise.IsCarrier(os.Args):
		return carrier(os.Args[1:]), true
	}
	if m, is := shim.Manager(os.Args); is {
		return shim.Main(m, os.Args[1:]), true
	}
	return 0, false
}

// carrier is the program in a live cell. The commands of the cell have the same user: they
// must not look into it, or write its memory, while it answers the host. What they did
// before is why the host checks its answers all the same.
func carrier(args []string) int {
	if err := hide(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return carry.Failed
	}
	if len(args) > 0 && args[0] == forward.Verb {
		return forward.Main(args, os.Stdin, os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == ready.Verb {
		return ready.Main(context.Background(), args, os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == files.Verb {
		return files.Main(args, os.Stdin, os.Stdout, os.Stderr)
	}
	return carry.Main(args, os.Stdin, os.Stdout, os.Stderr)
}
