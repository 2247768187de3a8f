package carry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Exit codes of Main.
const (
	Done     = 0
	Failed   = 1
	NotFound = 3
	Exists   = 4
)

// Main is one side of a copy as a program: "send PATH OWN" writes a stream to
// stdout, which reports owners other than that of the path OWN; "receive PATH
// BASE" reads one from stdin. It reports what is left out, and a failure, on
// stderr.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var t Totals
	var err error
	switch {
	case len(args) == 3 && args[0] == "send":
		t, err = send(args[1], args[2], stdout)
	case len(args) == 3 && args[0] == "receive":
		t, err = receive(args[1], args[2], stdin)
	default:
		err = errors.New("usage: send PATH OWN | receive PATH BASE")
	}
	for _, name := range t.Skipped {
		fmt.Fprintf(stderr, "%q is not a file, directory or symbolic link: left out\n", name)
	}
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrExists):
		fmt.Fprintln(stderr, err)
		return Exists
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintln(stderr, err)
		return NotFound
	}
	fmt.Fprintln(stderr, err)
	return Failed
}

func send(from, own string, w io.Writer) (Totals, error) {
	var owner *Owner
	var st unix.Stat_t
	if unix.Stat(own, &st) == nil {
		owner = &Owner{st.Uid, st.Gid}
	}
	dir, name, err := Source(from)
	if err != nil {
		return Totals{}, err
	}
	defer dir.Close()
	return Send(context.Background(), w, dir, name, owner)
}

func receive(to, base string, r io.Reader) (Totals, error) {
	dir, name, err := Place(to, base)
	if err != nil {
		return Totals{}, err
	}
	defer dir.Close()
	return Receive(context.Background(), r, dir, name, Screen{})
}
