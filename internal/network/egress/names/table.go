// Package names provides the DNS of a cell: it binds each name that some rule
// could allow to synthetic addresses, and answers the cell's DNS questions with
// them.
//
// The package resolves nothing. A question of a cell never leaves the host, so
// a name cannot carry data out. When the cell connects to an address, its name
// is looked up in the [Table], and the connection is decided then. The package
// does not know rules, cells, events or real addresses: the caller decides
// which names are allowed and receives the questions.
package names

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// errFull is returned when the table has no address left for another name.
var errFull = errors.New("no synthetic address left")

// defaultNames is how many names a table binds by default: far more than ordinary
// programs need, and a few MiB at most.
const defaultNames = 8192

// The ranges of synthetic addresses. 198.18.0.0/15 is reserved for benchmarks,
// so no public service uses it. The IPv6 range is a unique-local /48 with 40
// random bits, as RFC 4193 requires: another network is unlikely to use it, and
// programs route and show it like any other address. The last 32 bits of an
// IPv6 address are the IPv4 address of the same name, so that a person can see
// that they belong together.
const (
	v4Base = 198<<24 | 18<<16
	v4Mask = 0xfffe0000

	v6High = 0xfd9b_53c1_e86a_0000

	// Some programs reject a network's first and last address: of each 256
	// addresses the outer two stay unused.
	perBlock  = 254
	addresses = 512 * perBlock
)

// Table binds names to synthetic addresses, each for the life of the table. An
// address is never given to a second name, so an answer that a program
// remembers never changes its meaning. The zero Table is empty and ready. It is
// safe for concurrent use.
type Table struct {
	// Max is how many names are bound; 0 means defaultNames. It must not
	// change after the first Assign.
	Max int

	mu sync.RWMutex
	// first is the random start of the addresses: an address that a program
	// kept from an earlier run is most likely unbound, rather than bound to
	// another name.
	first   uint32
	ordinal map[string]uint32
	names   []string
}

// Clone returns a table with the same names at the same addresses, to which others
// can be added.
func (t *Table) Clone() *Table {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return &Table{Max: t.Max, first: t.first, ordinal: maps.Clone(t.ordinal), names: slices.Clone(t.names)}
}

// Assign returns the addresses of a name and binds them at the first call.
// Names are compared without regard to case and to a dot at the end. The error
// is errFull, or describes what is wrong with the name.
func (t *Table) Assign(name string) (v4, v6 netip.Addr, err error) {
	host, err := hostName(name)
	if err != nil {
		return netip.Addr{}, netip.Addr{}, err
	}
	n, err := t.bind(host)
	if err != nil {
		return netip.Addr{}, netip.Addr{}, err
	}
	v4, v6 = t.addrs(n)
	return v4, v6, nil
}

func (t *Table) bind(host string) (uint32, error) {
	t.mu.RLock()
	n, ok := t.ordinal[host]
	t.mu.RUnlock()
	if ok {
		return n, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.ordinal[host]; ok {
		return n, nil
	}
	if len(t.names) >= t.limit() {
		return 0, errFull
	}
	if t.ordinal == nil {
		t.ordinal = make(map[string]uint32)
		if t.first == 0 {
			t.first = randomStart()
		}
	}
	n = uint32(len(t.names))
	t.ordinal[host] = n
	t.names = append(t.names, host)
	return n, nil
}

func (t *Table) limit() int {
	if t.Max <= 0 {
		return defaultNames
	}
	return min(t.Max, addresses)
}

// randomStart returns a random start. It need not be uniform, only different from
// run to run.
func randomStart() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint32(b[:]) % addresses
}

func (t *Table) addrs(n uint32) (v4, v6 netip.Addr) {
	place := (t.first + n) % addresses
	ip := uint32(v4Base) + place/perBlock<<8 + place%perBlock + 1
	var a [16]byte
	binary.BigEndian.PutUint64(a[:], v6High)
	binary.BigEndian.PutUint32(a[12:], ip)
	return netip.AddrFrom4([4]byte(a[12:])), netip.AddrFrom16(a)
}

// Name returns the name that an address is bound to.
func (t *Table) Name(addr netip.Addr) (string, bool) {
	ip, ok := synthetic(addr)
	if !ok || ip&0xff == 0 || ip&0xff == 0xff {
		return "", false
	}
	ip -= v4Base
	place := ip>>8*perBlock + ip&0xff - 1
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := (place + addresses - t.first) % addresses
	if int(n) >= len(t.names) {
		return "", false
	}
	return t.names[n], true
}

// Len returns how many names are bound.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.names)
}

// Synthetic reports whether an address is in the ranges that tables use, bound
// or not. Such an address is never dialled.
func Synthetic(addr netip.Addr) bool {
	_, ok := synthetic(addr)
	return ok
}

// synthetic returns the IPv4 address of the same name.
func synthetic(addr netip.Addr) (uint32, bool) {
	if addr.Zone() != "" {
		return 0, false
	}
	addr = addr.Unmap()
	if addr.Is4() {
		a := addr.As4()
		ip := binary.BigEndian.Uint32(a[:])
		return ip, ip&v4Mask == v4Base
	}
	if !addr.Is6() {
		return 0, false
	}
	a := addr.As16()
	ip := binary.BigEndian.Uint32(a[12:])
	high, middle := binary.BigEndian.Uint64(a[:]), binary.BigEndian.Uint32(a[8:])
	return ip, high == v6High && middle == 0 && ip&v4Mask == v4Base
}

// hostName returns a name as the table keeps it: in lower case, without the dot
// at the end.
func hostName(name string) (string, error) {
	if n := len(name); n > 1 && name[n-1] == '.' {
		name = name[:n-1]
	}
	h, err := match.NewHost(name)
	if err != nil {
		return "", fmt.Errorf("a name that %w", err)
	}
	if _, ok := h.Addr(); ok {
		return "", errors.New("a name that is an address")
	}
	if !h.Exact() {
		return "", errors.New("a name that holds *, which no host name has")
	}
	return h.String(), nil
}
