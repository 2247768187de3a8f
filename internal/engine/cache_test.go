package engine_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/gosum"
	"github.com/forkcell/forkcell/internal/front/local"
)

func cachedFile(r *api.RunRequest) { r.Cache = api.CacheStandard }

// archiveOf returns an archive of a version of the module x that has a word in it.
func archiveOf(version, word string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.CreateHeader(&zip.FileHeader{Name: "x@" + version + "/word", Method: zip.Store})
	if err == nil {
		_, err = f.Write([]byte("word=" + word + "\n"))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// sumOf returns the line of go.sum for an archive of the module x.
func sumOf(version string, archive []byte) string {
	hash, err := gosum.Archive(context.Background(), bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		panic(err)
	}
	return "x " + version + " " + hash + "\n"
}

// listed is a go.sum that has every module that the tests put into caches.
func listed() []byte {
	var sums strings.Builder
	for _, word := range []string{"one", "far", "x", "first"} {
		for _, version := range []string{"v1", "v2"} {
			sums.WriteString(sumOf(version, archiveOf(version, word)))
		}
		sums.WriteString("x v1/go.mod " + gosum.Mod([]byte(word+"\n")) + "\n")
	}
	for i := range 4 {
		fmt.Fprintf(&sums, "x v%d/go.mod %s\n", i, gosum.Mod(fmt.Appendln(nil, i)))
	}
	return []byte(sums.String())
}

// putArchive is a line of a script that puts an archive of the module x into the caches.
func putArchive(version, word string) string {
	return fmt.Sprintf("\necho %s | base64 -d > /cache/go/mod/cache/download/x/@v/%s.zip\n", base64.StdEncoding.EncodeToString(archiveOf(version, word)), version)
}

// fill is a script that puts one file into every part of the caches that is
// treated differently; word is in all of them.
func fill(word string) string {
	var script strings.Builder
	for _, name := range []string{
		"go/mod/cache/download/x/@v/v1.zip", "go/mod/cache/download/x/@v/v1.mod", "go/mod/cache/download/x/@v/v1.ziphash",
		"go/mod/cache/download/x/@v/v1.info", "go/mod/cache/download/golang.org/toolchain/@v/v1.zip", "go/mod/x@v1/x.go",
		"go/mod/cache/vcs/1/hooks/post-checkout", "go/build/00/00-d", "npm/_cacache/content-v2/sha512/" + digestPath,
		"npm/_cacache/content-v2/sha512/11", "go/mod/cache/download/y.mod",
		"npm/_cacache/content-v2/sha1/00/11/22", "npm/_cacache/index-v5/00/11/22", "npm/_logs/log", "pip/http-v2/0/1", "pip/wheels/0/x.whl",
		"cargo/registry/cache/r/x.crate", "cargo/registry/index/r/x", "cargo/registry/src/r/x.rs", "cargo/bin/tool", "cargo/config.toml", "elsewhere",
	} {
		fmt.Fprintf(&script, "mkdir -p $(dirname /cache/%s)\necho %s > /cache/%s\n", name, word, name)
	}
	return "set -e\n" + script.String() + putArchive("v1", word)
}

// digestPath is where npm keeps the contents with a certain digest.
var digestPath = "00/00/" + strings.Repeat("0", 124)

const listCache = "cd /cache && find . -type f | sort"

// The files of fill that cells of another directory, and of the same directory,
// find after a promotion.
var (
	sharedByAll = []string{
		"./go/mod/cache/download/x/@v/v1.mod", "./go/mod/cache/download/x/@v/v1.zip", "./npm/_cacache/content-v2/sha512/" + digestPath,
	}
	sharedBySource = append([]string{
		"./cargo/registry/cache/r/x.crate", "./cargo/registry/index/r/x", "./go/build/00/00-d",
		"./go/mod/cache/download/golang.org/toolchain/@v/v1.zip", "./go/mod/cache/download/x/@v/v1.info", "./go/mod/cache/download/x/@v/v1.ziphash",
		"./go/mod/x@v1/x.go", "./npm/_cacache/content-v2/sha1/00/11/22", "./npm/_cacache/index-v5/00/11/22", "./pip/http-v2/0/1",
		"./npm/_cacache/content-v2/sha512/11", "./go/mod/cache/download/y.mod", "./pip/wheels/0/x.whl",
	}, sharedByAll...)
)

// from makes a cell with caches, from its own directory, or from source if it
// is not empty. A directory of its own has a go.sum with all modules.
func (w *world) from(name, source string) string {
	w.Helper()
	if source == "" {
		source = filepath.Join(w.TempDir(), name)
		w.ok(os.MkdirAll(source, 0o755))
		w.ok(os.WriteFile(filepath.Join(source, "go.sum"), listed(), 0o644))
	}
	_, err := w.e.Init(w.ctx, api.InitRequest{Name: name, From: source, Cache: api.CacheStandard})
	w.ok(err)
	return source
}

func (w *world) promote(name string) *api.PromoteResult {
	w.Helper()
	res, err := w.e.Promote(w.ctx, api.PromoteRequest{Cell: name})
	w.ok(err)
	return res
}

// wantCache compares the files that a new cell of a source finds in its caches.
func (w *world) wantCache(what, name string, want []string) {
	w.Helper()
	_, out := w.sh(name, listCache)
	if got := strings.Fields(out); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		w.Errorf("%s: the caches hold %q, want %q", what, got, want)
	}
}

// caches lists the names of the shared caches.
func (w *world) caches() (names []string) {
	w.Helper()
	list, err := w.e.Caches(w.ctx)
	w.ok(err)
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}

// TestSharedCaches: no other cell sees what a cell puts into its caches until it is
// promoted; then other directories find only what tools check by themselves.
func TestSharedCaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.from("one", "")
	res, _ := w.sh("one", fill("one"), acceptOnSuccess)
	if res.Cache == nil || res.Cache.From != "" || res.Cache.Path != "/cache" || res.ChangedFiles != 0 {
		t.Errorf("the run: %+v %+v", res.Cache, res)
	}
	w.from("two", source)
	elsewhere := w.from("far", "")
	w.wantCache("nothing was promoted", "two", nil)
	w.wantCache("nothing was promoted", "far", nil)

	dry, err := w.e.Promote(w.ctx, api.PromoteRequest{Cell: "one", DryRun: true})
	w.ok(err)
	if names := w.caches(); names != nil {
		t.Errorf("a dry run made %q", names)
	}
	done := w.promote("one")
	for i, c := range done.Caches {
		if d := dry.Caches[i]; d.CacheFiles != c.CacheFiles || !maps.Equal(d.Tools, c.Tools) || c.CheckpointID == "" {
			t.Errorf("the dry run said %+v, it was %+v", d, c)
		}
	}
	if names := w.caches(); !slices.Equal(names, []string{"cache:" + source, "cache:home"}) {
		t.Errorf("the shared caches are %q", names)
	}
	// Cells with caches keep the state that they are based on; a cell without
	// caches gets the new one.
	w.wantCache("the same directory", "two", sharedBySource)
	w.wantCache("another directory", "far", sharedByAll)
	w.from("new", elsewhere)
	res, _ = w.sh("new", "true")
	if res.Cache.From != "cache:home" || res.Cache.Root != done.Caches[0].Root || res.Cache.Statement == 0 {
		t.Errorf("the run is based on %+v, promoted was %+v", res.Cache, done.Caches[0])
	}
	if _, out := w.sh("new", "ls /cache; env", func(r *api.RunRequest) { r.Cache = api.CacheOff }); strings.Contains(out, "GOCACHE") || !strings.Contains(out, "No such file") {
		t.Errorf("without the cache there is %s", out)
	}
	if again := w.promote("one"); again.Caches[0].Files+again.Caches[1].Files != 0 {
		t.Errorf("promoted twice: %+v", again)
	}
	w.sound("one", "two", "far", "new", "cache:home", "cache:"+source)
	if infos, err := w.e.List(w.ctx); err != nil || len(infos) != 4 || infos[0].Cache != api.CacheStandard {
		t.Errorf("ls shows %+v, %v", infos, err)
	}
	_, err = w.e.Run(w.ctx, api.RunRequest{Cell: "cache:home", Args: []string{"true"}}, engine.Stdio{})
	w.refused(err, api.Usage, "bad cell name")
}

// TestPromoteAddsToWhatIsThere: files of the home's cache are never
// overwritten. The cache of a directory has the newest files, and those that
// the home's cache got meanwhile.
func TestPromoteAddsToWhatIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.from("one", "")
	w.from("far", "")
	const zip = "/cache/go/mod/cache/download/x/@v/v1.zip"
	w.sh("one", fill("one"), acceptOnSuccess)
	w.sh("far", fill("far")+putArchive("v2", "far"), acceptOnSuccess)
	w.promote("one")
	if res := w.promote("far"); res.Caches[0].Kept != 3 || res.Caches[0].Files != 1 {
		t.Errorf("promoted from elsewhere: %+v", res.Caches)
	}
	w.from("two", source)
	w.sh("two", "echo two > /cache/go/build/00/00-d; rm /cache/pip/wheels/0/x.whl", acceptOnSuccess)
	w.promote("two")
	w.from("three", source)
	_, out := w.sh("three", "grep -aoh 'word=[a-z]*' "+zip+" "+strings.Replace(zip, "v1", "v2", 1)+"; cat /cache/go/build/00/00-d /cache/pip/wheels/0/x.whl")
	if out != "word=one\nword=far\ntwo\none\n" {
		t.Errorf("the third cell of the directory finds %q", out)
	}
	w.sound("one", "two", "three", "far", "cache:home", "cache:"+source)
}

// TestUnlistedModules: a cell sees only modules of a shared cache whose hashes a go.sum of
// its state has. The checksum database may be off, and then the go command believes what
// it finds and writes that hash into go.sum.
func TestUnlistedModules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.from("one", "")
	w.sh("one", fill("one")+putArchive("v2", "one"), acceptOnSuccess)
	w.promote("one")
	archive := sumOf("v1", archiveOf("v1", "one"))
	mod := "x v1/go.mod " + gosum.Mod([]byte("one\n")) + "\n"
	const at = "./go/mod/cache/download/x/@v/v1"
	for i, c := range []struct {
		name, file, sums string
		want             []string
	}{
		{"nothing is listed", "", "", nil},
		{"all is listed", "go.sum", archive + mod, []string{at + ".mod", at + ".zip"}},
		{"in a module below", "a/b/go.sum", archive, []string{at + ".zip"}},
		{"for a workspace", "go.work.sum", mod, []string{at + ".mod"}},
		{"with another hash", "go.sum", sumOf("v1", archiveOf("v1", "far")), nil},
		{"as another version", "go.sum", strings.Replace(archive, "v1", "v2", 1), nil},
		{"in a file of another name", "go.sum.orig", archive + mod, nil},
	} {
		dir := filepath.Join(w.TempDir(), "far")
		w.ok(os.MkdirAll(filepath.Join(dir, filepath.Dir(c.file)), 0o755))
		if c.file != "" {
			w.ok(os.WriteFile(filepath.Join(dir, c.file), []byte(c.sums), 0o644))
		}
		name := fmt.Sprintf("far%d", i)
		w.from(name, dir)
		var want []string
		for _, p := range sharedByAll {
			if !strings.Contains(p, "go/mod") {
				want = append(want, p)
			}
		}
		w.wantCache(c.name, name, append(want, c.want...))
		w.sound(name)
		w.ok(os.RemoveAll(dir)) // no later case has its files
	}

	// The directory's own cache has what the go command does not check at all.
	w.ok(os.WriteFile(filepath.Join(source, "go.sum"), nil, 0o644))
	w.from("two", source)
	var rest []string
	for _, p := range sharedBySource {
		if !strings.Contains(p, "/mod/") || strings.Contains(p, "toolchain") || strings.HasSuffix(p, "y.mod") {
			rest = append(rest, p)
		}
	}
	w.wantCache("the same directory without its go.sum", "two", rest)

	// What a state lists counts when its caches begin. A run that leaves the caches as
	// they are begins nothing; what was hidden then is downloaded again.
	w.ok(os.WriteFile(filepath.Join(source, "go.sum"), listed(), 0o644))
	_, err := w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "two"})
	w.ok(err)
	w.wantCache("after a refresh", "two", append([]string{"./go/mod/cache/download/x/@v/v2.zip"}, sharedBySource...))
	w.sh("far0", "echo mine > /cache/go/mod/mine", acceptOnSuccess)
	w.sh("far0", "cat > go.sum <<'END'\n"+archive+"END", acceptOnSuccess)
	w.wantCache("after a run that wrote there", "far0", []string{"./go/mod/mine", "./npm/_cacache/content-v2/sha512/" + digestPath})
	w.sh("far0", "mkdir -p /cache/go/mod/cache/download/x/@v"+putArchive("v1", "far"), acceptOnSuccess)
	w.wantCache("what it downloaded", "far0", []string{at + ".zip", "./go/mod/mine", "./npm/_cacache/content-v2/sha512/" + digestPath})
	w.sound("far0", "two", "cache:home", "cache:"+source)
}

// TestPromoteTakesOnlyFiles: whatever a cell makes, a shared cache has only
// regular files without owners, in plain directories of limited depth.
func TestPromoteTakesOnlyFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.from("one", "")
	w.sh("one", `set -e; mkdir -p /cache/pip/a /cache/go/build; cd /cache/pip
ln -s /etc/passwd link; ln -s a dirlink; mkfifo fifo; echo x > a/plain; ln a/plain a/twin
echo x > tool; chmod 4755 tool; echo x > mine; chmod 400 mine; mkdir -m 1777 open; echo x > open/x
d=deep; i=0; while [ $i -lt 70 ]; do d=$d/d; i=$((i+1)); done; mkdir -p $d; echo x > $d/x
ln -s /etc /cache/go/mod`, acceptOnSuccess)
	res := w.promote("one")
	if len(res.Caches) != 2 || res.Caches[0].Files != 0 || res.Skipped["not a regular file"] != 3 {
		t.Errorf("promoted: %+v", res)
	}
	if names := w.caches(); !slices.Equal(names, []string{"cache:" + source}) {
		t.Errorf("the shared caches are %q", names)
	}
	w.from("two", source)
	_, out := w.sh("two", `cd /cache && find . -type d -o -printf '%p %y %m %u %n\n' | sort; find . -type d ! -perm 755 ! -path .`)
	want := "./pip/a/plain f 644 sandbox 1\n./pip/a/twin f 644 sandbox 1\n./pip/mine f 644 sandbox 1\n./pip/open/x f 644 sandbox 1\n./pip/tool f 755 sandbox 1\n"
	if out != want {
		t.Errorf("the other cell finds\n%swant\n%s", out, want)
	}
	w.sound("one", "two", "cache:"+source)
}

// TestPromoteIsRefused where there is nothing that the operator has accepted.
func TestPromoteIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.from("one", "")
	try := func(name string) error {
		_, err := w.e.Promote(w.ctx, api.PromoteRequest{Cell: name})
		return err
	}
	w.refused(try("nobody"), api.NotFound, "no such cell")
	w.refused(try("one"), api.Refused, "nothing in a cache")
	w.sh("one", fill("x"))
	w.refused(try("one"), api.Refused, "is pending")
	w.sh("one", "true") // which changes nothing
	_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "one", Name: "fork"})
	w.ok(err)
	w.refused(try("fork"), api.Refused, "is pending")
	if info, err := w.e.Status(w.ctx, "fork"); err != nil || info.Cache != api.CacheStandard {
		t.Errorf("the fork: %+v, %v", info, err)
	}
	_, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "fork"})
	w.ok(err)
	w.sh("fork", "true")
	_, err = w.e.Promote(w.ctx, api.PromoteRequest{Cell: "fork", DryRun: true})
	w.ok(err)
	_, err = w.e.RemoveCaches(w.ctx, []string{"cache:home"}, false)
	w.refused(err, api.NotFound, "no such shared cache")
	for _, backend := range []string{"clone", "delta"} {
		_, err := w.e.Init(w.ctx, api.InitRequest{Name: backend, From: w.source, Backend: backend, Cache: api.CacheStandard})
		w.refused(err, api.Refused, "only the overlay backend")
		w.init(backend, backend)
		_, err = w.e.Run(w.ctx, api.RunRequest{Cell: backend, Args: []string{"true"}, RunOptions: api.RunOptions{Cache: api.CacheStandard}}, engine.Stdio{})
		w.refused(err, api.Refused, "only the overlay backend")
	}
	_, err = w.e.Init(w.ctx, api.InitRequest{Name: "there", From: w.source, MountAt: "/cache/x", Cache: api.CacheStandard})
	w.refused(err, api.Refused, "where the cell's caches are")
	_, err = w.e.Run(w.ctx, api.RunRequest{Cell: "one", Args: []string{"true"}, RunOptions: api.RunOptions{Cache: "all"}}, engine.Stdio{})
	w.refused(err, api.Usage, "unknown cache")
}

// TestCachesAreKept: gc frees only shared states that no sealed or running
// state is based on.
func TestCachesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.from("one", "")
	w.sh("one", fill("one"), acceptOnSuccess)
	w.promote("one")
	w.from("two", source)
	w.sh("two", "echo two > /cache/go/build/two", acceptOnSuccess)
	w.promote("two")
	w.from("three", source)
	w.from("last", source)
	// It alone is based on the newest one, and no sealed state is.
	out := w.during("three", "echo ready; read x; "+listCache, func() {
		other, release, err := local.Open(w.home, local.Write, tester())
		w.ok(err)
		defer func() { w.ok(release()) }()
		_, err = other.RemoveCaches(w.ctx, nil, true)
		w.ok(err)
		for range 2 {
			_, err = other.GC(w.ctx, api.GCRequest{})
			w.ok(err)
		}
	}, func(*api.RunRequest) {})
	more := slices.Sorted(slices.Values(append([]string{"./go/build/two"}, sharedBySource...)))
	if got := strings.Fields(out)[1:]; !slices.Equal(got, more) {
		t.Errorf("the run that gc passed by found %q", got)
	}
	_, err := w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	w.wantCache("the one that is based on it", "two", more)
	w.wantCache("one that was made later", "last", nil)
	w.sound("one", "two", "three", "last")
	if res, err := w.e.Verify(w.ctx, "two", "", false); err != nil || len(res.Checkpoints) != 2 {
		t.Errorf("verify does not include what the cell is based on: %+v, %v", res, err)
	}
	w.ok(w.e.RemoveAll(w.ctx, []string{"one", "two", "three", "last"}, false))
	_, err = w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	if left, err := os.ReadDir(filepath.Join(w.home, "layers")); err != nil || len(left) > 0 {
		t.Errorf("when nobody needs them, %d layers stay, %v", len(left), err)
	}
	w.sound()
}

// TestCachesFromTheLog: the shared caches, and the states that are based on
// them, are rebuilt from the log alone.
func TestCachesFromTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.from("one", "")
	w.sh("one", fill("one"), acceptOnSuccess)
	w.promote("one")
	w.from("two", source)
	w.sh("two", "echo two > /cache/go/build/two", acceptOnSuccess)
	w.promote("two")
	_, err := w.e.RemoveCaches(w.ctx, []string{"cache:home"}, false)
	w.ok(err)
	before, err := w.e.Caches(w.ctx)
	w.ok(err)
	w.loseDatabase()
	w.ok(w.recover())
	w.open()
	after, err := w.e.Caches(w.ctx)
	w.ok(err)
	if !slices.Equal(before, after) {
		t.Errorf("the shared caches were %+v, and are %+v", before, after)
	}
	_, err = w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	w.from("three", source)
	w.wantCache("after a recovery", "three", append([]string{"./go/build/two"}, sharedBySource...))
	w.wantCache("the older one", "two", append([]string{"./go/build/two"}, sharedBySource...))
	if info, err := w.e.Status(w.ctx, "two"); err != nil || info.Cache != api.CacheStandard {
		t.Errorf("the cell is set to %+v, %v", info, err)
	}
	w.sound("one", "two", "three", "cache:"+source)
}

// TestPromoteAtOnce: promotions wait for each other, and lose nothing.
func TestPromoteAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 4
	source := w.from("c0", "")
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		if i > 0 {
			w.from(name, source)
		}
		w.sh(name, fmt.Sprintf("mkdir -p /cache/go/build /cache/go/mod/cache/download/x/@v; echo %d > /cache/go/build/%d; echo %d > /cache/go/mod/cache/download/x/@v/v%d.mod", i, i, i, i), acceptOnSuccess)
	}
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		group.Go(func() {
			e, release, err := local.Open(w.home, local.Write, tester())
			if err == nil {
				_, err = e.Promote(w.ctx, api.PromoteRequest{Cell: fmt.Sprintf("c%d", i)})
				_ = release()
			}
			errs[i] = err
		})
	}
	group.Wait()
	for _, err := range errs {
		w.ok(err)
	}
	w.from("new", source)
	_, out := w.sh("new", listCache)
	if got := len(strings.Fields(out)); got != 2*n {
		t.Errorf("of %d files there are\n%s", 2*n, out)
	}
	w.sound("new", "cache:home", "cache:"+source)
}

// TestDeepCaches: a shared cache of many promotions is squashed to one layer.
// States that are based on the old layers stay.
func TestDeepCaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openWith(time.Now, 4)
	source := w.from("one", "")
	var want []string
	for i := range 7 {
		w.sh("one", fmt.Sprintf("mkdir -p /cache/go/build; echo x > /cache/go/build/%d", i), acceptOnSuccess)
		want = append(want, fmt.Sprintf("./go/build/%d", i))
		w.promote("one")
		if i == 3 { // the next promotion puts another layer in the place of this state's
			w.from("early", source)
			w.sh("early", "echo x > /cache/early", acceptOnSuccess)
		}
	}
	list, err := w.e.Caches(w.ctx)
	w.ok(err)
	if len(list) != 1 || list[0].Layers > 5 {
		t.Errorf("the shared caches: %+v", list)
	}
	_, err = w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	w.from("late", source)
	w.wantCache("the new one", "late", want)
	w.wantCache("the early one", "early", append([]string{"./early"}, want[:4]...))
	w.sound("one", "early", "late", "cache:"+source)
}

// TestReceiptTellsOfTheCache: the signed statement has what the cache was based on.
func TestReceiptTellsOfTheCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.from("one", "")
	w.sh("one", fill("one"), acceptOnSuccess)
	home := w.promote("one").Caches[0]
	w.from("far", "")
	res, _ := w.sh("far", "true")
	if use := w.receiptCache(res.ReceiptID); use == nil || use.CheckpointID != home.CheckpointID || use.Root != home.Root {
		t.Errorf("the receipt says %+v, promoted was %+v", use, home)
	}
	plan, err := w.e.Plan(w.ctx, api.RunRequest{Cell: "far", Args: []string{"true"}})
	w.ok(err)
	if plan.Cache == nil || *plan.Cache != *res.Cache {
		t.Errorf("the dry run says %+v, the run %+v", plan.Cache, res.Cache)
	}
	w.init("plain", "")
	res, _ = w.sh("plain", "true")
	if use := w.receiptCache(res.ReceiptID); use != nil {
		t.Errorf("the receipt of a run without says %+v", use)
	}
	res, _ = w.sh("plain", "true", cachedFile)
	if use := w.receiptCache(res.ReceiptID); use == nil || use.From != "cache:home" {
		t.Errorf("the receipt of one run with it says %+v", use)
	}
}

// receiptCache returns the cache in a receipt.
func (w *world) receiptCache(id string) *api.CacheUse {
	w.Helper()
	doc, err := w.e.Receipt(w.ctx, id, "", false)
	w.ok(err)
	var said struct {
		Receipt struct {
			Predicate struct {
				Controls struct {
					Asked struct{ Cache *api.CacheUse }
				}
			}
		}
	}
	w.ok(json.Unmarshal(doc.JSON, &said))
	return said.Receipt.Predicate.Controls.Asked.Cache
}

// TestCacheDisk: what a cell's caches are based on counts as caches, not as workspace.
func TestCacheDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.from("one", "")
	const size = 1 << 20
	w.sh("one", fmt.Sprintf("mkdir -p /cache/go/build/00 && head -c %d /dev/urandom > /cache/go/build/00/00-d", size), acceptOnSuccess)
	w.promote("one")
	w.from("two", source)
	w.sh("two", "echo x > /cache/go/build/own")
	disk, err := w.e.Disk(w.ctx, "two")
	w.ok(err)
	if areas := disk.Cells[0].Areas; areas["cache"] < size || areas["workspace"] >= size {
		t.Errorf("%v", areas)
	}
}
