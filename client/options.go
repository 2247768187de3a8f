package client

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Option is an option of New.
type Option func(*config)

type config struct {
	url       string
	tokenFile string
	token     string
	tls       *tls.Config
	binary    string
	commands  bool
}

// WithURL names the daemon: unix:PATH, http://HOST:PORT or https://HOST:PORT.
func WithURL(url string) Option { return func(c *config) { c.url = url } }

// WithTokenFile names the file that has the token.
func WithTokenFile(path string) Option { return func(c *config) { c.tokenFile = path } }

// WithToken gives the token itself.
func WithToken(token string) Option { return func(c *config) { c.token = token } }

// WithTLS configures TLS, for example with the certificate of a private authority.
func WithTLS(t *tls.Config) Option { return func(c *config) { c.tls = t } }

// WithBinary names the program that sends directories of this machine to a daemon
// elsewhere, and writes them back. Without it, that is forkcell in the search path. It
// trusts the certificates of the system, and those that SSL_CERT_FILE names.
func WithBinary(path string) Option { return func(c *config) { c.binary = path } }

// WithCommandHints asks for hints about errors that name commands and flags of the
// command line, instead of requests and fields of the API.
func WithCommandHints() Option { return func(c *config) { c.commands = true } }

// read completes the options from the environment.
func (c *config) read() error {
	if c.url == "" {
		c.url = os.Getenv("FORKCELL_URL")
	}
	if c.url == "" {
		socket, err := localSocket()
		if err != nil {
			return err
		}
		c.url = unixScheme + socket
	}
	if c.token != "" {
		return nil
	}
	if c.tokenFile == "" {
		c.tokenFile = os.Getenv("FORKCELL_TOKEN_FILE")
	}
	if c.tokenFile == "" {
		return nil
	}
	text, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	c.token = strings.TrimSpace(string(text))
	return nil
}

const unixScheme = "unix:"

// localSocket returns the path of the daemon's socket in the default home.
func localSocket() (string, error) {
	if dir := os.Getenv("FORKCELL_HOME"); dir != "" {
		return filepath.Abs(dir + "/api.sock")
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir + "/forkcell/api.sock", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory: %w; set FORKCELL_URL", err)
	}
	return home + "/.local/share/forkcell/api.sock", nil
}

// address is where a daemon is.
type address struct {
	// socket is the path of a unix socket, or "".
	socket string
	// base is the beginning of every URL.
	base string
}

// parse reads the address of a daemon. A token is sent in the clear to this machine
// only.
func (c *config) parse() (address, error) {
	if path, ok := strings.CutPrefix(c.url, unixScheme); ok {
		if path == "" {
			return address{}, fmt.Errorf("bad URL %q: the path is missing", c.url)
		}
		return address{socket: path, base: "http://localhost"}, nil
	}
	u, err := url.Parse(c.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return address{}, fmt.Errorf("bad URL %q: want unix:PATH, http://HOST:PORT or https://HOST:PORT", c.url)
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return address{}, fmt.Errorf("bad URL %q: HTTP without TLS is for this machine only; use https", c.url)
	}
	return address{base: u.Scheme + "://" + u.Host}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
