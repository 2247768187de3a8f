package token

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// dirHome keeps the file of tokens in a directory, as a home does.
type dirHome struct {
	dir string
	mu  sync.Mutex
	// reads counts how often the file was read.
	reads int
}

func (h *dirHome) path() string { return filepath.Join(h.dir, "tokens.json") }

func (h *dirHome) TokensInfo() (os.FileInfo, error) {
	info, err := os.Stat(h.path())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // as a home does
	}
	return info, err
}

func (h *dirHome) ReadTokens() ([]byte, os.FileInfo, error) {
	h.reads++
	data, err := os.ReadFile(h.path())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := h.TokensInfo()
	return data, info, err
}

func (h *dirHome) ChangeTokens(fn func([]byte) ([]byte, error)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, err := os.ReadFile(h.path())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	data, err := fn(old)
	if err != nil {
		return err
	}
	temp := h.path() + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, h.path())
}

// clock is a time that tests move.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.Now()} }

func (c *clock) now() time.Time { return c.at }

func (c *clock) move(d time.Duration) { c.at = c.at.Add(d) }

func newTestBook(t *testing.T) (*Book, *dirHome, *clock) {
	t.Helper()
	h, c := &dirHome{dir: t.TempDir()}, newClock()
	return NewBook(h, c.now), h, c
}

func mustCreate(t *testing.T, b *Book, r api.TokenRequest) *api.TokenCreated {
	t.Helper()
	made, err := b.Create(r, "tester")
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestLifeOfAToken(t *testing.T) {
	t.Parallel()
	b, h, c := newTestBook(t)
	made := mustCreate(t, b, api.TokenRequest{
		Name: "ci", Scopes: []string{"run"}, Cells: "ci-", Credentials: []string{"b", "a", "b"}, Quota: &api.Quota{Runs: 2},
		Policy: &api.PolicyFile{Text: []byte("version: 1\n")}, Expires: time.Hour,
	})
	g, err := b.Check(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	if g.Name != "ci" || g.ID != made.ID || g.Quota.Runs != 2 || string(g.Ceiling.Text) != "version: 1\n" {
		t.Errorf("the grant is %+v", g)
	}
	if !g.Allows(Read) || !g.Allows(Run) || g.Allows(Decide) || g.Allows(Admin) {
		t.Errorf("scopes of a run token: %v", g.Scopes)
	}
	if !g.SeesCell("ci-1") || g.SeesCell("other") || g.SeesCell("xci-1") {
		t.Error("the prefix does not bound the cells")
	}
	if !slices.Equal(g.Credentials, []string{"a", "b"}) || !g.MayUse("a") || g.MayUse("c") {
		t.Errorf("credentials are %v", g.Credentials)
	}
	data, err := os.ReadFile(h.path())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(made.Token))
	if strings.Contains(string(data), made.Token) || !strings.Contains(string(data), hex.EncodeToString(sum[:])) {
		t.Error("the file has the secret, or not its hash")
	}

	c.move(time.Hour - time.Nanosecond)
	if _, err := b.Check(made.Token); err != nil {
		t.Errorf("refused before its end: %v", err)
	}
	c.move(time.Nanosecond)
	for _, err := range []error{second(b.Check(made.Token)), second(b.Current(made.ID))} {
		if !errors.Is(err, ErrRefused) {
			t.Errorf("an expired token: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestOtherProcess has another process revoke a token of a book that is open.
func TestOtherProcess(t *testing.T) {
	t.Parallel()
	b, h, c := newTestBook(t)
	other := NewBook(h, c.now)
	for range 50 {
		made := mustCreate(t, other, api.TokenRequest{Name: "x", Scopes: []string{"read"}})
		if _, err := b.Check(made.Token); err != nil {
			t.Fatalf("a new token of another process: %v", err)
		}
		if _, err := other.Revoke("x", "tester"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Check(made.Token); !errors.Is(err, ErrRefused) {
			t.Fatalf("a token that another process revoked: %v", err)
		}
	}
}

// TestUnchangedFileIsNotRead checks that a check costs a stat only.
func TestUnchangedFileIsNotRead(t *testing.T) {
	t.Parallel()
	b, h, c := newTestBook(t)
	made := mustCreate(t, b, api.TokenRequest{Name: "x", Scopes: []string{"read"}})
	c.move(time.Minute)
	for range 10 {
		if _, err := b.Check(made.Token); err != nil {
			t.Fatal(err)
		}
	}
	if h.reads != 1 {
		t.Errorf("the file was read %d times", h.reads)
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	b, _, _ := newTestBook(t)
	first := mustCreate(t, b, api.TokenRequest{Name: "x", Scopes: []string{"read"}})
	if _, err := b.Create(api.TokenRequest{Name: "x", Scopes: []string{"run"}}, "tester"); !errors.Is(err, ErrTaken) {
		t.Errorf("a second token of one name: %v", err)
	}
	info, err := b.Revoke("x", "boss")
	if err != nil || info.ID != first.ID || info.State != stateRevoked || info.RevokedBy != "boss" {
		t.Fatalf("revoke: %+v, %v", info, err)
	}
	if _, err := b.Revoke("x", "boss"); !errors.Is(err, ErrNone) {
		t.Errorf("revoked by name again: %v", err)
	}
	if again, err := b.Revoke(first.ID, "other"); err != nil || again.RevokedBy != "boss" {
		t.Errorf("revoked by id again: %+v, %v", again, err)
	}
	next := mustCreate(t, b, api.TokenRequest{Name: "x", Scopes: []string{"run"}})
	list, err := b.List()
	if err != nil || len(list) != 2 || list[0].ID != first.ID || list[1].ID != next.ID {
		t.Errorf("list: %+v, %v", list, err)
	}
}

func TestWrongSecrets(t *testing.T) {
	t.Parallel()
	b, _, _ := newTestBook(t)
	made := mustCreate(t, b, api.TokenRequest{Name: "x", Scopes: []string{"read"}})
	last := made.Token[:len(made.Token)-1]
	for _, secret := range []string{
		"", "fct_", made.Token + "A", last, last + "!", strings.ToUpper(made.Token), strings.TrimPrefix(made.Token, "fct_"), made.ID, made.Name,
	} {
		if _, err := b.Check(secret); !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	b, _, _ := newTestBook(t)
	for name, r := range map[string]api.TokenRequest{
		"no name":        {Scopes: []string{"run"}},
		"a control":      {Name: "a\nb", Scopes: []string{"run"}},
		"a long name":    {Name: strings.Repeat("a", 64), Scopes: []string{"run"}},
		"no scope":       {Name: "x"},
		"another scope":  {Name: "x", Scopes: []string{"Read"}},
		"a prefix":       {Name: "x", Scopes: []string{"run"}, Cells: "a/b"},
		"a credential":   {Name: "x", Scopes: []string{"run"}, Credentials: []string{""}},
		"an end":         {Name: "x", Scopes: []string{"run"}, Expires: -1},
		"a quota":        {Name: "x", Scopes: []string{"run"}, Quota: &api.Quota{Runs: -1}},
		"a large policy": {Name: "x", Scopes: []string{"run"}, Policy: &api.PolicyFile{Text: make([]byte, maxPolicy+1)}},
	} {
		if _, err := b.Create(r, "tester"); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOperatorsFile uses entries that Make printed.
func TestOperatorsFile(t *testing.T) {
	t.Parallel()
	b, _, _ := newTestBook(t)
	made, err := b.Make(api.TokenRequest{Name: "robot", Scopes: []string{"admin"}}, "tester")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Check(made.Token); !errors.Is(err, ErrRefused) {
		t.Fatalf("an entry that is in no file: %v", err)
	}
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, []byte(made.Entry), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.UseFile(file); err != nil {
		t.Fatal(err)
	}
	g, err := b.Check(made.Token)
	if err != nil || !g.Allows(Decide) {
		t.Fatalf("a token of the file: %+v, %v", g, err)
	}
	for _, ref := range []string{"robot", made.ID} {
		if _, err := b.Revoke(ref, "boss"); !errors.Is(err, ErrFixed) {
			t.Errorf("revoke %s: %v", ref, err)
		}
	}
	// A bad file leaves the book as it was.
	for _, bad := range []struct {
		text string
		mode os.FileMode
	}{{made.Entry, 0o644}, {made.Entry + "x", 0o600}, {strings.Replace(made.Entry, "admin", "root", 1), 0o600}} {
		other := filepath.Join(t.TempDir(), "bad.json")
		if err := os.WriteFile(other, []byte(bad.text), bad.mode); err != nil {
			t.Fatal(err)
		}
		if err := b.UseFile(other); !errors.Is(err, ErrInvalid) {
			t.Errorf("mode %o: %v", bad.mode, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, t.TempDir(), "/dev/null", filepath.Join(t.TempDir(), "missing")} {
		if err := b.UseFile(path); err == nil {
			t.Errorf("%s was used", path)
		}
	}
	if _, err := b.Check(made.Token); err != nil {
		t.Errorf("a bad file took the good one away: %v", err)
	}
}

// TestForeignOwner needs root, who alone can give files away.
func TestForeignOwner(t *testing.T) {
	t.Parallel()
	b, _, _ := newTestBook(t)
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if err := os.Chown(file, 0, 0); err == nil {
			t.Error("an ordinary user gave a file away")
		}
		return
	}
	if err := os.Chown(file, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := b.UseFile(file); !errors.Is(err, ErrInvalid) {
		t.Errorf("a file of somebody else: %v", err)
	}
}

func TestDamagedHome(t *testing.T) {
	t.Parallel()
	b, h, _ := newTestBook(t)
	made := mustCreate(t, b, api.TokenRequest{Name: "x", Scopes: []string{"read"}})
	if err := os.WriteFile(h.path(), []byte(`{"version":2,"tokens":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{second(b.Check(made.Token)), second(b.Current(made.ID)), second(b.List()), second(b.Revoke("x", ""))} {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("a damaged file: %v", err)
		}
	}
}

func TestFullBook(t *testing.T) {
	t.Parallel()
	now := time.Now()
	doc := document{Version: 1, Tokens: make([]entry, maxEntries+1)}
	if err := doc.dropEnded(now); !errors.Is(err, ErrFull) {
		t.Errorf("too many active tokens: %v", err)
	}
	doc.Tokens[7].RevokedAt = &now
	if err := doc.dropEnded(now); err != nil || len(doc.Tokens) != maxEntries {
		t.Errorf("one of them has ended: %v, %d left", err, len(doc.Tokens))
	}
}

func FuzzParse(f *testing.F) {
	b := NewBook(nil, time.Now)
	made, err := b.Make(api.TokenRequest{Name: "x", Scopes: []string{"run"}, Quota: &api.Quota{CPUs: 1.5}, Expires: time.Hour}, "tester")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(made.Entry))
	f.Add([]byte(`{"version":1,"tokens":[],"Tokens":[]}`))
	f.Add([]byte(`{"version":1,"version":1,"tokens":[]}`))
	f.Add([]byte(`{"version":1,"tokens":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := parse(data)
		if err != nil {
			return
		}
		text, err := doc.text()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(text)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, text)
		}
		if twice, err := again.text(); err != nil || string(twice) != string(text) {
			t.Fatalf("%v:\n%s\n%s", err, text, twice)
		}
		for i := range again.Tokens {
			if g := again.Tokens[i].grant(); len(g.Scopes) == 0 || g.Name == "" {
				t.Fatalf("a token without a scope or a name: %+v", g)
			}
		}
	})
}

func TestStrictParse(t *testing.T) {
	t.Parallel()
	b := NewBook(nil, time.Now)
	made, err := b.Make(api.TokenRequest{Name: "x", Scopes: []string{"run"}}, "tester")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse([]byte(made.Entry)); err != nil {
		t.Fatal(err)
	}
	one := made.Entry[strings.Index(made.Entry, "    {"):strings.LastIndex(made.Entry, "\n  ]")]
	for name, text := range map[string]string{
		"twice":        strings.Replace(made.Entry, one, one+","+one, 1),
		"another case": strings.Replace(made.Entry, `"scopes"`, `"Scopes"`, 1),
		"repeated":     strings.Replace(made.Entry, `"name": "x"`, `"name": "x", "name": "y"`, 1),
		"unknown":      strings.Replace(made.Entry, `"name": "x"`, `"name": "x", "nick": "y"`, 1),
		"null":         strings.Replace(made.Entry, `"name": "x"`, `"name": "x", "expires_at": null`, 1),
		"more":         made.Entry + "{}",
		"no version":   `{"tokens":[]}`,
		"a hash":       strings.Replace(made.Entry, `"sha256": "`, `"sha256": "0`, 1),
		"not UTF-8":    made.Entry[:len(made.Entry)-1] + "\xff",
		"an id":        strings.Replace(made.Entry, `"tok_`, `"run_`, 1),
		"deep":         strings.Repeat(`{"version":`, 100),
	} {
		if _, err := parse([]byte(text)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseQuota(t *testing.T) {
	t.Parallel()
	got, err := ParseQuota([]byte(`{"live_cells":2,"runs":4,"memory":"8GiB","cpus":2.5,"disk":1024,"requests_per_second":0.5}`))
	want := api.Quota{LiveCells: 2, Runs: 4, Memory: 8 << 30, CPUs: 2.5, Disk: 1024, RequestsPerSecond: 0.5}
	if err != nil || got != want {
		t.Errorf("have %+v, %v", got, err)
	}
	for _, bad := range []string{
		``, `{}`, `[]`, `null`, `{"runs":0}`, `{"runs":-1}`, `{"runs":1.5}`, `{"runs":"4"}`, `{"runs":1e3}`, `{"runs":null}`, `{"Runs":1}`,
		`{"runs":1,"runs":2}`, `{"cores":1}`, `{"cpus":0}`, `{"cpus":1e99}`, `{"cpus":"2"}`, `{"memory":"8 GiB"}`, `{"memory":-1}`,
		`{"disk":{}}`, `{"runs":1}x`, `{"requests_per_second":0.0001}`,
	} {
		if q, err := ParseQuota([]byte(bad)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %+v, %v", bad, q, err)
		}
	}
}

func FuzzParseQuota(f *testing.F) {
	f.Add([]byte(`{"live_cells":2,"runs":4,"memory":"8GiB","cpus":2.5,"disk":1024,"requests_per_second":0.5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := ParseQuota(data)
		if err == nil && (q == (api.Quota{}) || checkQuota(q) != nil) {
			t.Fatalf("%+v", q)
		}
	})
}
