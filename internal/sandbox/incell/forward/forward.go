// Package forward is the cell's end of a forwarded port: it connects its own
// standard streams with a listener in the cell.
//
// It runs in a cell like any command, under the same controls, so it can reach
// only what other commands of the cell can. It knows nothing about cells or the
// host.
package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// Verb is the first argument that selects Main.
const Verb = "dial"

// The exit codes of Main.
const (
	Done     = 0
	Failed   = 1
	NoListen = 2 // nothing listens on the port
)

// Main connects stdin and stdout with a port on the cell's loopback: "dial PORT".
// It ends when the listener closes the connection.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	port, err := parse(args)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return Failed
	}
	conn, err := dial(port)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return NoListen
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stdin)
		_ = conn.CloseWrite() // the listener sees the end of input and may still answer
	}()
	if _, err := io.Copy(stdout, conn); err != nil {
		fmt.Fprintln(stderr, err)
		return Failed
	}
	return Done
}

func parse(args []string) (int, error) {
	if len(args) != 2 || args[0] != Verb {
		return 0, errors.New("usage: dial PORT")
	}
	port, err := strconv.ParseUint(args[1], 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("bad port %q", args[1])
	}
	return int(port), nil
}

// dial tries both loopback addresses.
func dial(port int) (*net.TCPConn, error) {
	conn, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err == nil {
		return conn, nil
	}
	if conn, other := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv6loopback, Port: port}); other == nil {
		return conn, nil
	}
	return nil, err
}
