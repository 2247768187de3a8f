package names

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestAssign(t *testing.T) {
	t.Parallel()
	table := &Table{first: 253}
	for _, c := range []struct{ name, want, v4, v6 string }{
		{"api.example.com", "api.example.com", "198.18.0.254", "fd9b:53c1:e86a::c612:fe"},
		{"b.example.com.", "b.example.com", "198.18.1.1", "fd9b:53c1:e86a::c612:101"},
		{"API.Example.Com.", "api.example.com", "198.18.0.254", "fd9b:53c1:e86a::c612:fe"},
		{"_srv._tcp.example.com", "_srv._tcp.example.com", "198.18.1.2", "fd9b:53c1:e86a::c612:102"},
		{"db", "db", "198.18.1.3", "fd9b:53c1:e86a::c612:103"},
	} {
		v4, v6, err := table.Assign(c.name)
		if err != nil || v4.String() != c.v4 || v6.String() != c.v6 {
			t.Errorf("Assign(%q) = %v, %v, %v; want %s, %s", c.name, v4, v6, err, c.v4, c.v6)
		}
		for _, a := range []netip.Addr{v4, v6, netip.AddrFrom16(v4.As16())} {
			if got, ok := table.Name(a); !ok || got != c.want || !Synthetic(a) {
				t.Errorf("Name(%s) = %q, %v; want %q", a, got, ok, c.want)
			}
		}
	}
	if table.Len() != 4 {
		t.Errorf("Len = %d, want 4", table.Len())
	}
}

func TestAssignRefuses(t *testing.T) {
	t.Parallel()
	var table Table
	for _, name := range []string{
		"", ".", "..", "a..b", ".a.b", "a.b..", "*.example.com", "**.example.com", "1.2.3.4", "::1", "[::1]",
		"127.1", "0x7f.1", "a.0x1f", "a b.example.com", `a\.b.example.com`, `a\000.example.com`, "ä.example.com", "-a.example.com",
		strings.Repeat("a", 64) + ".example.com", strings.Repeat("a.", 127) + "aa", "a/b", "a:53", "a\nb.example.com",
	} {
		if v4, v6, err := table.Assign(name); err == nil {
			t.Errorf("Assign(%q) = %s, %s; want an error", name, v4, v6)
		}
	}
	if table.Len() != 0 {
		t.Errorf("Len = %d, want 0", table.Len())
	}
}

func TestNameOfNothing(t *testing.T) {
	t.Parallel()
	table := &Table{first: 1}
	if _, _, err := table.Assign("a.example.com"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		addr      string
		synthetic bool
	}{
		{"198.18.0.2", true}, // the one that is bound
		{"198.18.0.0", true},
		{"198.18.0.1", true},
		{"198.18.0.3", true},
		{"198.18.0.255", true},
		{"198.19.255.254", true},
		{"198.19.255.255", true},
		{"198.17.255.254", false},
		{"198.20.0.1", false},
		{"127.0.0.1", false},
		{"fd9b:53c1:e86a::", false},
		{"fd9b:53c1:e86a::1:c612:2", false},
		{"fd9b:53c1:e86a:1::c612:2", false},
		{"fd9b:53c1:e86a::c614:2", false},
		{"fd9b:53c1:e86b::c612:2", false},
		{"fd9b:53c1:e86a::c612:2%lo", false},
		{"::ffff:198.18.0.3", true},
		{"::c612:2", false},
	} {
		addr := netip.MustParseAddr(c.addr)
		if Synthetic(addr) != c.synthetic {
			t.Errorf("Synthetic(%s) = %v", addr, !c.synthetic)
		}
		if name, ok := table.Name(addr); ok != (c.addr == "198.18.0.2") {
			t.Errorf("Name(%s) = %q, %v", addr, name, ok)
		}
	}
	if _, ok := table.Name(netip.Addr{}); ok || Synthetic(netip.Addr{}) {
		t.Error("no address at all has a name")
	}
}

func TestTableFull(t *testing.T) {
	t.Parallel()
	table := &Table{Max: 3}
	for i := range 3 {
		if _, _, err := table.Assign(fmt.Sprintf("h%d.example.com", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := table.Assign("h3.example.com"); !errors.Is(err, errFull) {
		t.Errorf("the fourth name of three: %v, want ErrFull", err)
	}
	if _, _, err := table.Assign("H1.example.com"); err != nil {
		t.Errorf("a bound name stays bound: %v", err)
	}
}

// TestWholeRange fills all there is: no address is given twice, every one of
// them leads back to its name, and the range does not overflow.
func TestWholeRange(t *testing.T) {
	t.Parallel()
	table := &Table{Max: 1 << 30}
	name := func(i int) string { return "h" + strconv.Itoa(i) + ".example.com" }
	for i := range addresses {
		if _, err := table.bind(name(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range addresses {
		v4, v6 := table.addrs(uint32(i))
		for _, a := range []netip.Addr{v4, v6} {
			if got, ok := table.Name(a); !Synthetic(a) || !ok || got != name(i) {
				t.Fatalf("%s has %s, which leads to %q", name(i), a, got)
			}
		}
	}
	if _, err := table.bind("one-more.example.com"); !errors.Is(err, errFull) {
		t.Errorf("one more than there are: %v", err)
	}
}

// TestTablesDiffer: what a program kept from another run most likely means
// nothing here.
func TestTablesDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[netip.Addr]bool)
	for range 8 {
		v4, _, err := new(Table).Assign("a.example.com")
		if err != nil {
			t.Fatal(err)
		}
		seen[v4] = true
	}
	if len(seen) == 1 {
		t.Error("eight tables start at the same address")
	}
}

// TestTableModel compares a history of assignments with two plain maps.
func TestTableModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "max")
		table := &Table{Max: limit, first: uint32(rapid.IntRange(1, addresses-1).Draw(t, "first"))}
		names, addrs := map[string]netip.Addr{}, map[netip.Addr]string{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.StringMatching(`[a-eA-E]{1,2}\.example\.com\.?`).Draw(t, "name")
			key := strings.ToLower(strings.TrimSuffix(name, "."))
			v4, v6, err := table.Assign(name)
			had, ok := names[key]
			switch {
			case ok && (err != nil || v4 != had):
				t.Fatalf("%q moved from %s to %s (%v)", name, had, v4, err)
			case !ok && len(names) == limit:
				if !errors.Is(err, errFull) {
					t.Fatalf("%q: %v, want ErrFull", name, err)
				}
				continue
			case !ok && (err != nil || addrs[v4] != "" || addrs[v6] != ""):
				t.Fatalf("%q got %s and %s (%v), which are %q's", name, v4, v6, err, addrs[v4])
			}
			names[key], addrs[v4], addrs[v6] = v4, key, key
			for a, want := range addrs {
				if got, ok := table.Name(a); !ok || got != want {
					t.Fatalf("Name(%s) = %q, want %q", a, got, want)
				}
			}
		}
	})
}

func TestTableTogether(t *testing.T) {
	t.Parallel()
	var table Table
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 200 {
				name := fmt.Sprintf("h%d.example.com", i)
				v4, _, err := table.Assign(name)
				if got, ok := table.Name(v4); err != nil || !ok || got != name {
					t.Errorf("%s: %s, which is %q (%v)", name, v4, got, err)
				}
			}
		})
	}
	group.Wait()
	if table.Len() != 200 {
		t.Errorf("Len = %d, want 200", table.Len())
	}
}
