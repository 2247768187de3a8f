package hosttool

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLook finds programs beside directories that cells have written, and none in them.
func TestLook(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tool := func(path string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tool("work/.venv/bin/npm")
	tool("work-tools/npm")
	tool("bin/go")
	for link, to := range map[string]string{"linked": "work/.venv/bin", "bin/npm": "work/.venv/bin/npm", "alias": "work"} {
		if err := os.Symlink(filepath.Join(root, to), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	path := func(dirs ...string) (list string) {
		for _, d := range dirs {
			list += root + "/" + d + ":"
		}
		return list
	}
	closed := func(dir string) ExcludedDirs {
		return func() ([]string, error) { return []string{root + "/" + dir}, nil }
	}
	unknown := func() ([]string, error) { return nil, errors.New("the database is damaged") }
	for name, c := range map[string]struct {
		path   string
		closed ExcludedDirs
		tool   string
		want   string
	}{
		"nothing is closed":             {path("work/.venv/bin"), nil, "npm", "work/.venv/bin/npm"},
		"in a source":                   {path("work/.venv/bin"), closed("work"), "npm", ""},
		"the next directory":            {path("work/.venv/bin", "work-tools"), closed("work"), "npm", "work-tools/npm"},
		"a link to a directory":         {path("linked"), closed("work"), "npm", ""},
		"a link to a program":           {path("bin"), closed("work"), "npm", ""},
		"beside the link":               {path("bin"), closed("work"), "go", "bin/go"},
		"the source is known by a link": {path("work/.venv/bin"), closed("alias"), "npm", ""},
		"sources cannot be known":       {path("work-tools"), unknown, "npm", ""},
		"a relative directory":          {"work-tools:.:", nil, "npm", ""},
		"a path is no name":             {path("work-tools"), nil, "../work-tools/npm", ""},
	} {
		got, err := In(c.path, c.closed).Look(c.tool)
		want := c.want
		if want != "" {
			want = root + "/" + want
		}
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestEnv gives the started program no closed directory either.
func TestEnv(t *testing.T) {
	t.Parallel()
	env := []string{"PATH=/first", "A=b", "PATH=/usr/bin:/src/bin:relative"}
	got := InEnv(env, func() ([]string, error) { return []string{"/src"}, nil }).Env(env)
	if len(got) != 2 || got[0] != "A=b" || got[1] != "PATH=/usr/bin" {
		t.Errorf("%q", got)
	}
}

// TestSystem does not ask PATH.
func TestSystem(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	if got, err := System().Look("sh"); err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
