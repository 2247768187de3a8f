package capture

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The rules, in nftables' own language; this is the source of program_inet.bin and program_ip.bin.
// The variant for kernels without IPv6 is the same without the lines of IPv6, in
// a table of family ip.
//
//	table inet forkcell {
//		# Only DNS datagrams and their answers are tracked, for their
//		# translation; a connection costs the kernel less without.
//		chain track {
//			type filter hook output priority raw; policy accept;
//			udp dport 53 accept
//			udp sport 64753 accept
//			notrack
//		}
//		chain names {
//			type nat hook output priority dstnat; policy accept;
//			<inside> accept
//			ip  udp dport 53 dnat ip  to 192.0.2.53:64753
//			ip6 udp dport 53 dnat ip6 to [2001:db8::53]:64753
//		}
//		# A program can bind any address, as all are local. One that is not the
//		# cell's would get no answers, so it is refused here. The refusal itself
//		# is a reset to such an address.
//		chain out {
//			type filter hook output priority filter; policy drop;
//			<inside> accept
//			ip  saddr 192.0.2.2   meta l4proto tcp accept
//			ip6 saddr 2001:db8::2 meta l4proto tcp accept
//			ip  saddr 192.0.2.2   ip  daddr 192.0.2.53   udp dport 64753 accept
//			ip6 saddr 2001:db8::2 ip6 daddr 2001:db8::53 udp dport 64753 accept
//			tcp flags rst accept
//			meta l4proto tcp reject with tcp reset
//			reject with icmpx port-unreachable
//		}
//		# What left by the chain above comes in again by loopback.
//		chain in {
//			type filter hook prerouting priority mangle; policy accept;
//			meta l4proto != tcp accept
//			<inside> accept
//			tcp flags rst accept
//			ip  tcp dport 53 tproxy ip  to 192.0.2.53:64753 accept
//			ip6 tcp dport 53 tproxy ip6 to [2001:db8::53]:64753 accept
//			ip  tproxy ip  to 192.0.2.1:64753 accept
//			ip6 tproxy ip6 to [2001:db8::1]:64753 accept
//			reject with tcp reset
//		}
//	}
//
// where <inside> stands for a rule each of ip daddr 127.0.0.0/8, ip daddr
// 192.0.2.2, ip6 daddr ::1, ip6 daddr 2001:db8::2. Nothing is sent to 0.0.0.0 or
// ::, which the kernel itself turns into loopback. A refused datagram gives EPERM
// to who sends it, and ECONNREFUSED to who waits on the socket for an answer.
type ruleset struct {
	conn  *nftables.Conn
	table *nftables.Table
	inet  bool
	steps []string
}

func (r *ruleset) build() {
	r.steps = append(r.steps, "begin")
	family := nftables.TableFamilyIPv4
	if r.inet {
		family = nftables.TableFamilyINet
	}
	r.table = r.conn.AddTable(&nftables.Table{Family: family, Name: "forkcell"})
	r.steps = append(r.steps, "table")
	r.track()
	r.names()
	r.out()
	r.in()
	r.steps = append(r.steps, "end")
}

func (r *ruleset) track() {
	c := r.chain("track", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityRaw, nftables.ChainPolicyAccept)
	c.rule("query", protocol(unix.IPPROTO_UDP), port(dport, 53), accept())
	c.rule("answer", protocol(unix.IPPROTO_UDP), port(sport, Port), accept())
	c.rule("the rest", exprs{&expr.Notrack{}})
}

func (r *ruleset) names() {
	c := r.chain("names", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest, nftables.ChainPolicyAccept)
	c.inside()
	c.each("DNS", func(f proto) exprs {
		return join(protocol(unix.IPPROTO_UDP), port(dport, 53), f.to(f.resolver, &expr.NAT{
			Type: expr.NATTypeDestNAT, Family: uint32(f.number), RegAddrMin: 1, RegProtoMin: 2,
		}))
	})
}

func (r *ruleset) out() {
	c := r.chain("out", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter, nftables.ChainPolicyDrop)
	c.inside()
	c.each("connection", func(f proto) exprs {
		return join(f.addr(f.saddr, f.own), protocol(unix.IPPROTO_TCP), accept())
	})
	c.each("DNS", func(f proto) exprs {
		return join(f.addr(f.saddr, f.own), f.addr(f.daddr, f.resolver), protocol(unix.IPPROTO_UDP), port(dport, Port), accept())
	})
	c.rule("reset", protocol(unix.IPPROTO_TCP), reset(), accept())
	c.rule("refused connection", protocol(unix.IPPROTO_TCP), exprs{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	refusal := &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}
	if !r.inet {
		const portUnreachable = 3 // ICMP's own number
		refusal = &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable}
	}
	c.rule("refused packet", exprs{refusal})
}

func (r *ruleset) in() {
	c := r.chain("in", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityMangle, nftables.ChainPolicyAccept)
	c.rule("no connection", exprs{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
	}, accept())
	c.inside()
	c.rule("reset", protocol(unix.IPPROTO_TCP), reset(), accept())
	tproxy := func(f proto, a netip.Addr) exprs {
		return append(f.to(a, &expr.TProxy{Family: f.number, TableFamily: byte(r.table.Family), RegAddr: 1, RegPort: 2}), accept()...)
	}
	c.each("DNS connection", func(f proto) exprs {
		return join(protocol(unix.IPPROTO_TCP), port(dport, 53), tproxy(f, f.resolver))
	})
	c.each("connection", func(f proto) exprs { return join(protocol(unix.IPPROTO_TCP), tproxy(f, f.proxy)) })
	c.rule("lost connection", protocol(unix.IPPROTO_TCP), exprs{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
}

type chain struct {
	*ruleset
	*nftables.Chain
}

func (r *ruleset) chain(name string, kind nftables.ChainType, hook *nftables.ChainHook, prio *nftables.ChainPriority, policy nftables.ChainPolicy) chain {
	r.steps = append(r.steps, "chain "+name)
	return chain{r, r.conn.AddChain(&nftables.Chain{
		Name: name, Table: r.table, Type: kind, Hooknum: hook, Priority: prio, Policy: &policy,
	})}
}

func (c chain) rule(what string, parts ...exprs) {
	c.steps = append(c.steps, "chain "+c.Name+", rule "+what)
	c.conn.AddRule(&nftables.Rule{Table: c.table, Chain: c.Chain, Exprs: join(parts...)})
}

// each adds a rule for each address family.
func (c chain) each(what string, f func(proto) exprs) {
	for _, p := range []proto{four(), six()} {
		switch {
		case c.inet:
			c.rule(what+" "+p.name, p.only(), f(p))
		case p.number == unix.NFPROTO_IPV4:
			c.rule(what+" "+p.name, f(p))
		}
	}
}

// inside lets through what stays in the cell.
func (c chain) inside() {
	c.each("loopback", func(f proto) exprs {
		if f.number == unix.NFPROTO_IPV4 {
			return append(load(expr.PayloadBaseNetworkHeader, f.daddr, []byte{127}), accept()...)
		}
		return append(f.addr(f.daddr, netip.IPv6Loopback()), accept()...)
	})
	c.each("own address", func(f proto) exprs { return append(f.addr(f.daddr, f.own), accept()...) })
}

// proto is one address family: the places of the addresses in its header, and
// what the addresses are.
type proto struct {
	name                 string
	number               byte
	saddr, daddr         uint32
	own, proxy, resolver netip.Addr
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func four() proto {
	return proto{"IPv4", unix.NFPROTO_IPV4, 12, 16, ip(Own4), ip(Proxy4), ip(Resolver4)}
}

func six() proto {
	return proto{"IPv6", unix.NFPROTO_IPV6, 8, 24, ip(Own6), ip(Proxy6), ip(Resolver6)}
}

func (p proto) only() exprs {
	return exprs{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{p.number}},
	}
}

func (p proto) addr(at uint32, a netip.Addr) exprs {
	return load(expr.PayloadBaseNetworkHeader, at, a.AsSlice())
}

// to ends a rule with an expression that takes address and port from registers.
func (p proto) to(a netip.Addr, e expr.Any) exprs {
	return exprs{
		&expr.Immediate{Register: 1, Data: a.AsSlice()},
		&expr.Immediate{Register: 2, Data: bigEndian(Port)},
		e,
	}
}

type exprs []expr.Any

func join(parts ...exprs) exprs {
	var all exprs
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// Where the ports are in the headers of TCP and UDP.
const (
	sport = 0
	dport = 2
)

func port(at uint32, n uint16) exprs {
	return load(expr.PayloadBaseTransportHeader, at, bigEndian(n))
}

func bigEndian(n uint16) []byte { return []byte{byte(n >> 8), byte(n)} }

func protocol(n byte) exprs {
	return exprs{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{n}},
	}
}

func load(base expr.PayloadBase, at uint32, want []byte) exprs {
	return exprs{
		&expr.Payload{DestRegister: 1, Base: base, Offset: at, Len: uint32(len(want))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: want},
	}
}

// reset is tcp flags rst.
func reset() exprs {
	const flags, rst = 13, 4
	return exprs{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: flags, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{rst}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{0}},
	}
}

func accept() exprs { return exprs{&expr.Verdict{Kind: expr.VerdictAccept}} }
