package api

// DaemonOptions say which daemon a command talks to.
type DaemonOptions struct {
	// URL is unix:PATH, http://HOST:PORT or https://HOST:PORT; "" for none.
	URL string
	// TokenFile is the file that has the token; "" for none.
	TokenFile string
}

// Operator is what a daemon uses of the person who runs it.
type Operator struct {
	// Config is the configuration directory, Home the home directory; "" for none.
	Config, Home string
	// Env has the variables, as K=V, and Path is the search path of programs.
	Env  []string
	Path string
}

// ServeOptions are the options of the daemon.
type ServeOptions struct {
	// Listen are addresses: unix:PATH or HOST:PORT. Without any, the socket of the
	// home.
	Listen []string
	// TLSCert and TLSKey are files in PEM, for TCP.
	TLSCert, TLSKey string
	// Tokens is a file of tokens besides those of the home.
	Tokens string
	// AllowSource are directories that callers with a token may name.
	AllowSource []string
	// Hosts are names by which TCP clients may address the daemon, besides localhost
	// and the listen address.
	Hosts []string
	// MaxLive and MaxRuns bound live cells and runs at once; 0 is no bound.
	MaxLive, MaxRuns int
	// CredentialsFile is the operator's file of credentials, which requests use by
	// name. It need not exist; "" for none.
	CredentialsFile Text
	// AllowAgents are the coding agents of the host that callers with a token may start.
	AllowAgents []string
	// AllowPublish lets callers with a token publish, with the operator's name and key.
	AllowPublish bool
	// Operator is what sessions and publications use of the operator's.
	Operator Operator
	// LogFormat is text or json.
	LogFormat string
}
