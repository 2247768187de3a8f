// Package packages names the package managers that run as a cell's root when its
// commands ask for them, and what they get of those who ask.
//
// Both ends in a cell know it, and it is a part of the contract of drivers. It holds
// data, and must import nothing of the project.
package packages

import (
	"slices"
	"strings"
)

// Dir is where a command finds the programs by which it asks, named as the package
// managers. Socket is where they ask.
const (
	Dir    = "/run/forkcell/packages"
	Socket = "/run/forkcell/packages.sock"
)

// Manager is a package manager.
type Manager struct {
	Name string
	// Paths are where it can be, the first that exists counts.
	Paths []string
	// Reads are first arguments with which it only reads, so that it needs no root.
	Reads []string
}

// managers lists the package managers.
func managers() []Manager {
	about := []string{"--version", "--help", "-h"}
	return []Manager{
		{"apk", []string{"/usr/sbin/apk", "/usr/bin/apk", "/sbin/apk"}, append([]string{"info", "list", "search", "version"}, about...)},
		{"apt-get", []string{"/usr/bin/apt-get"}, about},
		{"dnf", []string{"/usr/bin/dnf"}, append([]string{"info", "list", "repoquery", "search"}, about...)},
		{"dpkg", []string{"/usr/bin/dpkg"}, append([]string{
			"-l", "--list", "-L", "--listfiles", "-s", "--status", "-S", "--search", "-p", "--print-avail",
			"--print-architecture", "--print-foreign-architectures", "--get-selections", "--compare-versions",
		}, about...)},
	}
}

// Find returns the package manager of a name.
func Find(name string) (Manager, bool) {
	list := managers()
	i := slices.IndexFunc(list, func(m Manager) bool { return m.Name == name })
	if i < 0 {
		return Manager{}, false
	}
	return list[i], true
}

// FindInstalled returns the package managers that are there, each with its one path.
func FindInstalled(exists func(path string) bool) (list []Manager) {
	for _, m := range managers() {
		if i := slices.IndexFunc(m.Paths, exists); i >= 0 {
			m.Paths = m.Paths[i : i+1]
			list = append(list, m)
		}
	}
	return list
}

// ReadsOnly reports whether the package manager only reads with these arguments.
func (m Manager) ReadsOnly(args []string) bool {
	return len(args) > 0 && slices.Contains(m.Reads, args[0])
}

// Environment returns the environment of a package manager: a fixed one, and of the
// caller's variables those that say how to talk to it and where the network is.
func Environment(callers []string) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LOGNAME=root",
		"SHELL=/bin/sh", "TMPDIR=/tmp", "FORKCELL=1",
	}
	chosen := []string{"LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	for _, kv := range callers {
		name, _, isPair := strings.Cut(kv, "=")
		if !isPair || !isPassedOn(name) || strings.IndexByte(kv, 0) >= 0 {
			continue
		}
		chosen = slices.DeleteFunc(chosen, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		chosen = append(chosen, kv)
	}
	return append(env, chosen...)
}

// isPassedOn reports whether a variable of the caller is passed on.
func isPassedOn(name string) bool {
	return strings.HasPrefix(name, "LC_") || slices.Contains([]string{
		"COLUMNS", "DEBCONF_NONINTERACTIVE_SEEN", "DEBIAN_FRONTEND", "DEBIAN_PRIORITY", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "TERM", "TZ",
		"CURL_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	}, name)
}
