package cgroup

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMembers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []member
		bad        bool
	}{
		{"hybrid", "9:name=systemd:/\n4:memory:/a/b\n1:cpu,cpuacct:/x:y\n0::/c d\n", []member{
			{[]string{"name=systemd"}, "/"},
			{[]string{"memory"}, "/a/b"},
			{[]string{"cpu", "cpuacct"}, "/x:y"},
			{nil, "/c d"},
		}, false},
		{"empty", "", nil, false},
		{"no path", "0::\n", nil, true},
		{"relative", "0::a\n", nil, true},
		{"one colon", "0:/\n", nil, true},
		{"no number", "x::/\n", nil, true},
		{"v2 with a number", "3::/\n", nil, true},
		{"v2 twice", "0::/\n0::/a\n", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseMembers(tt.text)
			if errors.Is(err, errFormat) != tt.bad {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(member{})); d != "" && !tt.bad {
				t.Error(d)
			}
		})
	}
}

func TestParseMounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []mountPoint
		bad        bool
	}{
		{
			"both",
			"23 1 0:2 / / rw - ext4 /dev/a rw\n" +
				"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:4 master:2 - cgroup cgroup rw,cpu,cpuacct\n" +
				"41 31 0:38 /a\\040b /sys/fs/c\\134g ro,relatime - cgroup2 cgroup2 rw,nsdelegate\n",
			[]mountPoint{
				{false, "/", "/sys/fs/cgroup/cpu", false, []string{"rw", "cpu", "cpuacct"}},
				{true, "/a b", `/sys/fs/c\g`, true, []string{"rw", "nsdelegate"}},
			},
			false,
		},
		{"short", "1 2 3\n", nil, true},
		{"no dash", "32 31 0:29 / /a rw cgroup cgroup rw\n", nil, true},
		{"bad escape", "32 31 0:29 / /a\\9 rw - cgroup cgroup rw\n", nil, true},
		{"open escape", "32 31 0:29 / /a\\04 rw - cgroup cgroup rw\n", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseMounts(tt.text)
			if errors.Is(err, errFormat) != tt.bad {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(mountPoint{})); d != "" && !tt.bad {
				t.Error(d)
			}
		})
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		root, path, want string
		ok               bool
	}{
		{"/", "/", "/cg", true},
		{"/", "/a/b", "/cg/a/b", true},
		{"/a", "/a", "/cg", true},
		{"/a", "/a/b", "/cg/b", true},
		{"/a", "/ab", "", false},
		{"/a", "/b", "", false},
		{"/", "/../x", "", false},
		{"/..", "/", "", false},
		{"/", "/a/../../etc", "", false},
	}
	for _, tt := range tests {
		got, ok := mountPoint{root: tt.root, dir: "/cg"}.groupDir(tt.path)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s in %s: %q %v", tt.path, tt.root, got, ok)
		}
	}
}

func TestParseNumbers(t *testing.T) {
	t.Parallel()
	got, err := parseKeyed("low 0\noom_kill 3\n")
	if err != nil || got["oom_kill"] != 3 || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"a\n", " 1\n", "a b\n", "a 1 2\n", "\n"} {
		if _, err := parseKeyed(bad); !errors.Is(err, errFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	pids, err := parsePIDs("1\n0\n42\n")
	if err != nil || !cmp.Equal(pids, []int{1, 42}) {
		t.Errorf("%v %v", pids, err)
	}
	for _, bad := range []string{"-1\n", "x\n", "99999999999\n"} {
		if _, err := parsePIDs(bad); !errors.Is(err, errFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "run_01J8", "a.b-c"} {
		if err := checkID(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", ".a", "a/b", "a b", "a\n", "ä", string(make([]byte, 200))} {
		if err := checkID(bad); !errors.Is(err, errID) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFallbacks(t *testing.T) {
	t.Parallel()
	for _, c := range Controls() {
		f := FallbackFor(c)
		if f.Reason == "" || (f.Rlimit == NoFallback) != (c != PIDs) {
			t.Errorf("%s: %+v", c, f)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("9:name=systemd:/\n0::/\n")
	f.Add("32 31 0:29 / /sys/fs/cgroup/cpu rw shared:4 - cgroup cgroup rw,cpu\n")
	f.Add("oom_kill 3\n")
	f.Add("1\n0\n")
	f.Fuzz(func(t *testing.T, text string) {
		members, _ := parseMembers(text)
		mounts, _ := parseMounts(text)
		for _, m := range mounts {
			for _, mem := range append(members, member{path: text}) {
				dir, ok := m.groupDir(mem.path)
				if ok && m.dir != "/" && dir != m.dir && len(dir) <= len(m.dir) {
					t.Errorf("%q in %+v leads out to %q", mem.path, m, dir)
				}
			}
		}
		_, _ = parseKeyed(text)
		_, _ = parsePIDs(text)
	})
}
