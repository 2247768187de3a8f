package api

// UIOptions are the options of the command that opens the review pages.
type UIOptions struct {
	// Cell is the cell to show first; "" shows all.
	Cell string
	// NoOpen only prints the link.
	NoOpen bool
	// Opener is the path of the program that opens a file in a browser; "" opens none.
	// OpenerPath is the search path that it gets.
	Opener, OpenerPath string
	// Daemon is the daemon to use; without a URL it is that of the home.
	Daemon DaemonOptions
	// CredentialsFile is that of a daemon that has to be started.
	CredentialsFile Text
}
