//go:build !linux

package egress

import (
	"net"
	"syscall"
)

// isBroken cannot be determined here, so a request of a program that is gone ends
// with its answer.
func isBroken(net.Conn) bool { return false }

// isQuiet cannot be determined here, so every connection is used once.
func isQuiet(syscall.RawConn) bool { return false }

func socket(net.Conn) (syscall.RawConn, bool) { return nil, false }
