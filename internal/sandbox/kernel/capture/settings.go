package capture

// Setting is a setting of a network namespace: a file beneath /proc/sys, and
// what to write to it.
type Setting struct{ File, Value string }

// Settings returns the settings that the namespace needs besides [Setup]. The
// caller writes them through its own /proc, from a thread in the namespace.
func Settings() []Setting {
	return []Setting{
		// An accepted connection inherits the mark of its opener's socket, by
		// which package origin finds the program.
		{"net/ipv4/tcp_fwmark_accept", "1"},
		// With TCP Fast Open a connection starts without connect(2), so its
		// socket would not be marked. Programs fall back to connect(2).
		{"net/ipv4/tcp_fastopen", "0"},
	}
}
