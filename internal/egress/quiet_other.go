//go:build !linux

package egress

import "net"

// quiet cannot tell here, so that every connection is used once.
func quiet(net.Conn) bool { return false }
