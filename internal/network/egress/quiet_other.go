//go:build !linux

package egress

import (
	"net"
	"syscall"
)

// broken cannot be determined here, so a request of a program that is gone ends
// with its answer.
func broken(net.Conn) bool { return false }

// quiet cannot be determined here, so every connection is used once.
func quiet(syscall.RawConn) bool { return false }

func socket(net.Conn) (syscall.RawConn, bool) { return nil, false }
