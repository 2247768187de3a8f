//go:build !linux

package egress

import (
	"net"
	"syscall"
)

// gone cannot wait here, so a program that ends its sending side gets no
// answer.
func gone(_ net.Conn, err error) error { return err }

// quiet cannot be determined here, so every connection is used once.
func quiet(syscall.RawConn) bool { return false }

func socket(net.Conn) (syscall.RawConn, bool) { return nil, false }
