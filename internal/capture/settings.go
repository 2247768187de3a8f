package capture

// Setting is a setting of a network namespace: a file beneath /proc/sys, and
// what to write to it.
type Setting struct{ File, Value string }

// Settings returns what the namespace needs besides what [Setup] does. The caller
// writes them, by a /proc of its own, from a thread in the namespace.
func Settings() []Setting {
	return []Setting{
		// An accepted connection has the mark that its opener's socket had, by
		// which package origin knows the program.
		{"net/ipv4/tcp_fwmark_accept", "1"},
		// A connection that begins with data comes without a call of connect(2),
		// and nothing would have marked its socket. Programs fall back.
		{"net/ipv4/tcp_fastopen", "0"},
	}
}
