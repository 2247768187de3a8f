package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeTree is a host of plain files.
type fakeTree struct {
	t   *testing.T
	dir string
}

func newFakeTree(t *testing.T, members, mounts string) *fakeTree {
	t.Helper()
	f := &fakeTree{t, t.TempDir()}
	f.write("proc/self/cgroup", members)
	f.write("proc/self/mountinfo", "23 1 0:2 / / rw - ext4 /dev/a rw\n"+mounts)
	f.write("proc/swaps", "Filename Type\n")
	return f
}

func (f *fakeTree) write(name, text string) {
	f.t.Helper()
	name = filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeTree) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// group makes a group of version 2 with the given controllers, those it passes
// on, and processes.
func (f *fakeTree) group(name, have, pass, procs string) {
	f.t.Helper()
	f.write(name+"/cgroup.controllers", have+"\n")
	f.write(name+"/cgroup.subtree_control", pass+"\n")
	f.write(name+"/cgroup.procs", procs)
	f.write(name+"/cgroup.type", "domain\n")
}

// detect looks at the tree; new groups get the given files.
func (f *fakeTree) detect(opt Options, files ...string) *Host {
	f.t.Helper()
	opt.Proc, opt.Root = filepath.Join(f.dir, "proc/self"), f.dir
	h, err := Detect(opt)
	if err != nil {
		f.t.Fatal(err)
	}
	h.mkdir = func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		for _, name := range files {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	return h
}

// brief shows support in one line for each control.
func (f *fakeTree) brief(h *Host) []string {
	var list []string
	for _, s := range h.Support() {
		line := strings.TrimSpace(string(s.Control) + " " + string(s.Status) + " " + s.Version)
		if s.Reason != "" {
			line += ": " + strings.ReplaceAll(s.Reason, f.dir, "")
		}
		if s.Status != Works && s.Remedy == "" && !strings.Contains(s.Reason, "option") {
			f.t.Errorf("%s: no remedy", s.Control)
		}
		list = append(list, line)
	}
	return list
}

const (
	mountV2   = "41 31 0:38 / /cg rw - cgroup2 cgroup2 rw\n"
	mountV2RO = "41 31 0:38 / /cg ro - cgroup2 cgroup2 rw\n"
	mountV1   = "32 31 0:29 / /v1/memory rw - cgroup cgroup rw,memory\n" +
		"33 31 0:30 / /v1/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"34 31 0:31 / /v1/pids rw - cgroup cgroup rw,pids\n" +
		"35 31 0:32 / /v1/freezer rw - cgroup cgroup rw,freezer\n"
	membersV1 = "5:freezer:/\n4:memory:/a\n3:cpu,cpuacct:/\n2:pids:/a/b\n"
	all       = "cpu memory pids"
)

func v1Groups(f *fakeTree) {
	for _, g := range []string{"v1/memory/a", "v1/cpu", "v1/pids/a/b", "v1/freezer"} {
		f.write(g+"/cgroup.procs", "")
	}
	f.write("v1/memory/a/memory.memsw.limit_in_bytes", "")
}

func TestDetectFake(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, members, mounts string
		fill                  func(f *fakeTree)
		opt                   Options
		version               string
		want                  []string
	}{
		{
			"v2, above the own group", "0::/user/session\n", mountV2,
			func(f *fakeTree) {
				f.group("cg", all, all, "")
				f.group("cg/user", all, all, "")
				f.group("cg/user/session", all, "", "1\n")
			},
			Options{},
			"v2",
			[]string{"memory works v2", "cpu works v2", "pids works v2", "freezer works v2"},
		},
		{
			"v2, an empty group can pass controllers on", "0::/own\n", mountV2,
			func(f *fakeTree) {
				f.group("cg", all, "", "1\n")
				f.group("cg/own", all, "", "")
			},
			Options{},
			"v2",
			[]string{"memory works v2", "cpu works v2", "pids works v2", "freezer works v2"},
		},
		{
			"v2, a slice that would have to be changed", "0::/slice/scope\n", mountV2,
			func(f *fakeTree) {
				f.group("cg", all, all, "")
				f.group("cg/slice", all, "memory", "")
				f.group("cg/slice/scope", "memory", "", "1\n")
			},
			Options{},
			"v2",
			[]string{"memory works v2", "cpu works v2", "pids works v2", "freezer works v2"},
		},
		{
			"v2, processes in the root of a container", "0::/\n", mountV2,
			func(f *fakeTree) { f.group("cg", all, "", "1\n") },
			Options{},
			"v2",
			[]string{
				"memory missing: /cg/cgroup.subtree_control does not list memory, and cannot while processes are in that group",
				"cpu missing: /cg/cgroup.subtree_control does not list cpu, and cannot while processes are in that group",
				"pids missing: /cg/cgroup.subtree_control does not list pids, and cannot while processes are in that group",
				"freezer works v2",
			},
		},
		{
			"v2, pids only was delegated", "0::/a/b\n", mountV2,
			func(f *fakeTree) {
				f.group("cg", all, "pids", "1\n")
				f.group("cg/a", "pids", "pids", "1\n")
				f.group("cg/a/b", "pids", "", "1\n")
			},
			Options{},
			"v2",
			[]string{
				"memory missing: /cg/a/cgroup.controllers does not list memory",
				"cpu missing: /cg/a/cgroup.controllers does not list cpu",
				"pids works v2", "freezer works v2",
			},
		},
		{
			"v2, read-only", "0::/\n", mountV2RO,
			func(f *fakeTree) { f.group("cg", all, all, "") },
			Options{},
			"none",
			[]string{
				"memory missing: version 2: /cg is mounted read-only",
				"cpu missing: version 2: /cg is mounted read-only",
				"pids missing: version 2: /cg is mounted read-only",
				"freezer missing: version 2: /cg is mounted read-only",
			},
		},
		{
			"v2, own group outside the namespace", "0::/../x\n", mountV2,
			func(f *fakeTree) { f.group("cg", all, all, "") },
			Options{Without: []Control{Freezer}},
			"none",
			[]string{
				"memory missing: version 2: this process's own group is outside what is mounted at /cg",
				"cpu missing: version 2: this process's own group is outside what is mounted at /cg",
				"pids missing: version 2: this process's own group is outside what is mounted at /cg",
				"freezer missing: taken away by an option",
			},
		},
		{
			"v1", membersV1, mountV1, v1Groups,
			Options{},
			"v1",
			[]string{"memory works v1", "cpu works v1", "pids works v1", "freezer works v1"},
		},
		{
			"hybrid", membersV1 + "0::/\n", mountV1 + mountV2,
			func(f *fakeTree) { v1Groups(f); f.group("cg", "hugetlb", "", "1\n") },
			Options{},
			"hybrid",
			[]string{"memory works v1", "cpu works v1", "pids works v1", "freezer works v2"},
		},
		{
			"memory mounted nowhere", "4:memory:/\n0::/\n", mountV2,
			func(f *fakeTree) { f.group("cg", "pids", "pids", "") },
			Options{Without: []Control{CPU}},
			"v2",
			[]string{"memory missing: its hierarchy is not mounted", "cpu missing: taken away by an option", "pids works v2", "freezer works v2"},
		},
		{
			"nothing", "", "", func(*fakeTree) {},
			Options{},
			"none",
			[]string{
				"memory missing: the kernel offers no such controller here",
				"cpu missing: the kernel offers no such controller here",
				"pids missing: the kernel offers no such controller here",
				"freezer missing: the kernel offers no such controller here",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeTree(t, tt.members, tt.mounts)
			tt.fill(f)
			h := f.detect(tt.opt)
			if d := cmp.Diff(tt.want, f.brief(h)); d != "" {
				t.Error(d)
			}
			if strings.Contains(tt.name, "changed") && (h.places[0].base != f.dir+"/cg" || len(h.places[0].enable) > 0) {
				t.Errorf("%+v", h.places)
			}
			if h.Version() != tt.version {
				t.Errorf("version %q, not %q", h.Version(), tt.version)
			}
		})
	}
}

func TestSwapNotCounted(t *testing.T) {
	t.Parallel()
	f := newFakeTree(t, "4:memory:/\n", mountV1)
	f.write("v1/memory/cgroup.procs", "")
	if s := f.detect(Options{}).Can(Memory); s.Status != Works {
		t.Errorf("without swap: %+v", s)
	}
	f.write("proc/swaps", "Filename Type\n/dev/b partition\n")
	if s := f.detect(Options{}).Can(Memory); s.Status != Degraded || s.Reason == "" || s.Remedy == "" {
		t.Errorf("with swap: %+v", s)
	}
}

// TestCreateV2 is about the files of version 2, for which this test's host may
// have no controllers.
func TestCreateV2(t *testing.T) {
	t.Parallel()
	f := newFakeTree(t, "0::/own\n", mountV2)
	f.group("cg", all, "", "1\n")
	f.group("cg/own", all, "pids", "")
	h := f.detect(
		Options{}, "memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max", "cgroup.procs",
		"cgroup.subtree_control", "memory.peak", "memory.events", "cpu.stat", "pids.events",
	)
	g, err := h.Create("x", Limits{Memory: 1 << 20, CPUsMilli: 1500, PIDs: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(42); err != nil {
		t.Fatal(err)
	}
	const dir = "cg/own/forkcell-x/"
	for name, want := range map[string]string{
		"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1",
		"cpu.max": "150000 100000", "pids.max": "7", "cgroup.procs": "42", "cgroup.subtree_control": "+cpu",
	} {
		if got := f.read(dir + name); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	f.write(dir+"cgroup.procs", "")
	if err := g.Touch(42); err != nil || f.read(dir+"cgroup.procs") != "42" {
		t.Errorf("touch: %v, %q", err, f.read(dir+"cgroup.procs"))
	}
	if g.Touch(0) == nil {
		t.Error("0, which is the caller itself, can be touched")
	}
	if got := f.read("cg/own/cgroup.subtree_control"); got != "+cpu" {
		t.Errorf("subtree_control: last write was %q", got)
	}
	f.write(dir+"memory.peak", "99\n")
	f.write(dir+"memory.events", "oom 5\noom_kill 4\n")
	f.write(dir+"cpu.stat", "usage_usec 7\nnr_throttled 2\nthrottled_usec 3\n")
	f.write(dir+"pids.events", "max 6\n")
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	want := Usage{MemoryPeak: 99, CPUMicros: 7, Throttled: 2, ThrottledMicros: 3, OOMKills: 4, PIDsHits: 6}
	if d := cmp.Diff(want, u); d != "" {
		t.Error(d)
	}
	f.write(dir+"memory.events", "broken\n")
	if _, err := g.Usage(); !errors.Is(err, errFormat) || !strings.Contains(err.Error(), "memory.events") {
		t.Errorf("broken file: %v", err)
	}
	if v := g.Version(); v != "v2" {
		t.Errorf("version %q", v)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	f := newFakeTree(t, membersV1, mountV1)
	v1Groups(f)
	h := f.detect(Options{Without: []Control{Memory}}, "cgroup.procs")
	var unsupported *UnsupportedError
	if _, err := h.Create("a", Limits{Memory: 1 << 20}); !errors.As(err, &unsupported) || unsupported.Control != Memory || !errors.Is(err, errUnsupported) {
		t.Errorf("memory: %v", err)
	}
	for _, l := range []Limits{{Memory: -1}, {CPUsMilli: -1}, {CPUsMilli: 9}, {PIDs: -1}} {
		if _, err := h.Create("a", l); !errors.Is(err, errLimit) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := h.Create("../a", Limits{}); !errors.Is(err, errID) {
		t.Errorf("id: %v", err)
	}
	// A file that is missing is named.
	if _, err := h.Create("a", Limits{PIDs: 3}); err == nil || !strings.Contains(err.Error(), "/v1/pids/a/b/forkcell-a/pids.max") {
		t.Errorf("missing file: %v", err)
	}
}
