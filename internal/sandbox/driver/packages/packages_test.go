package packages

import (
	"slices"
	"testing"
)

// What a caller could use to run its own code in a package manager is not passed on.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	env := Environment([]string{
		"LD_PRELOAD=/tmp/x.so", "PATH=/tmp", "APT_CONFIG=/tmp/apt.conf", "DPKG_ROOT=/tmp", "PERL5LIB=/tmp", "HOME=/home/sandbox", "BASH_ENV=/tmp/x",
		"LC_ALL=C", "LC_CTYPE=a\x00b", "DEBIAN_FRONTEND=readline", "TERM", "TERM=vt100", "http_proxy=http://p:1",
	})
	want := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LOGNAME=root",
		"SHELL=/bin/sh", "TMPDIR=/tmp", "FORKCELL=1", "LANG=C.UTF-8", "LC_ALL=C", "DEBIAN_FRONTEND=readline", "TERM=vt100", "http_proxy=http://p:1",
	}
	if !slices.Equal(env, want) {
		t.Errorf("got  %q\nwant %q", env, want)
	}
}

func TestInstalled(t *testing.T) {
	t.Parallel()
	list := FindInstalled(func(path string) bool { return path == "/sbin/apk" || path == "/usr/bin/dpkg" })
	if len(list) != 2 || list[0].Paths[0] != "/sbin/apk" || list[1].Name != "dpkg" {
		t.Errorf("got %v", list)
	}
	if _, ok := Find("sh"); ok {
		t.Error("sh is no package manager")
	}
	dpkg, _ := Find("dpkg")
	for _, c := range []struct {
		args []string
		want bool
	}{{[]string{"-l"}, true}, {[]string{"-i", "x.deb"}, false}, {[]string{"--force-all", "-l"}, false}, {nil, false}} {
		if got := dpkg.ReadsOnly(c.args); got != c.want {
			t.Errorf("dpkg %q: reads only: %v", c.args, got)
		}
	}
}
