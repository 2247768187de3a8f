package capture

import (
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the files of programs anew")

// loopback is the number of the loopback interface in every namespace.
const loopback = 1

// TestPrograms compares the messages that are sent with what the libraries make
// of the rules.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent program
		want []message
	}{
		"route": {routeProgram(), number(routes(), 0)},
		"inet":  {rules(true), number(filters(t, true), -1)},
		"ip":    {rules(false), number(filters(t, false), -1)},
	} {
		var data, steps string
		for _, m := range c.want {
			data += string(m.bytes)
			steps += m.step + "\n"
		}
		for _, part := range []struct{ file, want, got string }{
			{"program_" + name + ".bin", data, c.sent.bytes}, {"program_" + name + ".txt", steps, c.sent.steps},
		} {
			if *update {
				if err := os.WriteFile(part.file, []byte(part.want), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if d := cmp.Diff(part.want, part.got); d != "" {
				t.Errorf("the rules are not what %s says; run go test -update and review (-rules +file):\n%s", part.file, d)
			}
		}
	}
	// What asks for an answer is what is waited for.
	for _, six := range []bool{true, false} {
		asks, at := []int{}, 0
		p := rules(six)
		for n := 1; at < len(p.bytes); n++ {
			if binary.NativeEndian.Uint16([]byte(p.bytes[at+6:]))&unix.NLM_F_ACK != 0 {
				asks = append(asks, n)
			}
			at += int(binary.NativeEndian.Uint32([]byte(p.bytes[at:])))
		}
		if d := cmp.Diff([]int{p.acked}, asks); d != "" {
			t.Errorf("with IPv6 %t (-waited for +asked for):\n%s", six, d)
		}
	}
}

// message is one netlink message and what it is for.
type message struct {
	step  string
	bytes []byte
}

// number gives the messages their numbers, and sets who asks for an answer, which
// is never an echo of itself: all for 0, or the one given; -1 is the one before the end.
func number(messages []message, acked int) []message {
	if acked < 0 {
		acked = len(messages) - 1
	}
	for i, m := range messages {
		flags := binary.NativeEndian.Uint16(m.bytes[6:]) &^ (unix.NLM_F_ACK | unix.NLM_F_ECHO)
		if acked == 0 || acked == i+1 {
			flags |= unix.NLM_F_ACK
		}
		binary.NativeEndian.PutUint16(m.bytes[6:], flags)
		binary.NativeEndian.PutUint32(m.bytes[8:], uint32(i+1))
		binary.NativeEndian.PutUint32(m.bytes[12:], 0)
	}
	return messages
}

// filters takes what google/nftables would send.
func filters(t *testing.T, inet bool) []message {
	t.Helper()
	errTaken := errors.New("taken")
	var sent []netlink.Message
	conn, err := nftables.New(nftables.WithTestDial(func(req []netlink.Message) ([]netlink.Message, error) {
		sent = append(sent, req...)
		return nil, errTaken
	}))
	if err != nil {
		t.Fatal(err)
	}
	r := &ruleset{conn: conn, inet: inet}
	r.build()
	if err := conn.Flush(); !errors.Is(err, errTaken) {
		t.Fatal(err)
	}
	if len(sent) != len(r.steps) {
		t.Fatalf("%d messages for %d steps", len(sent), len(r.steps))
	}
	var all []message
	for i, m := range sent {
		b, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, message{r.steps[i], b})
	}
	return all
}

// routes builds with the encoder of vishvananda/netlink: its calls would send at
// once.
func routes() []message {
	up := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	link := nl.NewIfInfomsg(unix.AF_UNSPEC)
	link.Index, link.Flags, link.Change = loopback, unix.IFF_UP, unix.IFF_UP
	up.AddData(link)
	all := []message{{"loopback", up.Serialize()}}
	for _, p := range []proto{four(), six()} {
		all = append(all,
			message{p.name + " address", addressMessage(p)},
			message{p.name + " route", routeMessage(p)})
	}
	return all
}

func (p proto) family() int {
	if p.number == unix.NFPROTO_IPV4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// addressMessage is ip address add OWN dev lo nodad.
func addressMessage(p proto) []byte {
	req := nl.NewNetlinkRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	m := nl.NewIfAddrmsg(p.family())
	m.Index, m.Prefixlen, m.Scope = loopback, uint8(p.own.BitLen()), unix.RT_SCOPE_UNIVERSE
	if p.own.Is6() {
		m.IfAddrmsg.Flags = unix.IFA_F_NODAD
	}
	req.AddData(m)
	req.AddData(nl.NewRtAttr(unix.IFA_LOCAL, p.own.AsSlice()))
	req.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, p.own.AsSlice()))
	return req.Serialize()
}

// routeMessage is ip route add local default dev lo table local src OWN.
func routeMessage(p proto) []byte {
	req := nl.NewNetlinkRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	m := nl.NewRtMsg()
	m.Family = uint8(p.family())
	m.Table, m.Type, m.Scope, m.Protocol = unix.RT_TABLE_LOCAL, unix.RTN_LOCAL, unix.RT_SCOPE_HOST, unix.RTPROT_STATIC
	req.AddData(m)
	req.AddData(nl.NewRtAttr(unix.RTA_PREFSRC, p.own.AsSlice()))
	req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(loopback)))
	return req.Serialize()
}

// TestAddresses compares the two ways in which the addresses are written.
func TestAddresses(t *testing.T) {
	t.Parallel()
	got := []any{proxy(false).as4(), resolver(false).as4(), proxy(true).as16(), resolver(true).as16()}
	want := []any{ip(Proxy4).As4(), ip(Resolver4).As4(), ip(Proxy6).As16(), ip(Resolver6).As16()}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseAnswers(t *testing.T) {
	t.Parallel()
	ok := func(seq uint32, errno int32) []byte {
		b := make([]byte, 36)
		binary.NativeEndian.PutUint32(b, 36)
		binary.NativeEndian.PutUint16(b[4:], unix.NLMSG_ERROR)
		binary.NativeEndian.PutUint32(b[8:], seq)
		binary.NativeEndian.PutUint32(b[16:], uint32(errno))
		return b
	}
	other := ok(1, 0)
	other[4] = unix.NLMSG_DONE
	for i, c := range []struct {
		in   []byte
		want answers
		bad  bool
	}{
		{nil, nil, false},
		{ok(7, 0), answers{{7, 0}}, false},
		{append(ok(1, -1), ok(2, -17)...), answers{{1, unix.EPERM}, {2, unix.EEXIST}}, false},
		{ok(1, 0)[:19], nil, true},
		{ok(1, 0)[:30], nil, true},
		{ok(1, 5), nil, true},
		{ok(1, -5000), nil, true},
		{other, nil, true},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			got, err := parseAnswers(nil, c.in)
			if (err != nil) != c.bad {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(answer{})); !c.bad && d != "" {
				t.Error(d)
			}
		})
	}
}

func FuzzParseAnswers(f *testing.F) {
	f.Add([]byte{20, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseAnswers(nil, b)
		if err == nil && len(got) > len(b)/20 {
			t.Errorf("%d answers of %d bytes", len(got), len(b))
		}
	})
}
