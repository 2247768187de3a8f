package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/seccheck"
	pb "gvisor.dev/gvisor/pkg/sentry/seccheck/points/points_go_proto"
	"gvisor.dev/gvisor/pkg/sentry/socket"
	"gvisor.dev/gvisor/runsc/boot"
)

// sinkName is the name of connects among the sinks of gVisor's trace points.
const sinkName = "connects"

// connects writes a line for each address that a program of a container without a
// network connects to. The container's kernel knows them; its host sees no packet, since
// there is no route.
type connects struct {
	seccheck.SinkDefaults
	out *fd.FD
}

// registerConnects makes the sink known to runsc, in each of its processes.
func registerConnects() {
	seccheck.RegisterSink(seccheck.SinkDesc{Name: sinkName, Setup: standardError, New: newConnects})
}

// standardError is where the lines go. It is the runtime's, which the host reads.
func standardError(map[string]any) (*os.File, error) {
	copied, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(copied), sinkName), nil
}

func newConnects(_ map[string]any, out *fd.FD) (seccheck.Sink, error) {
	if out == nil {
		return nil, fmt.Errorf("%s: no file", sinkName)
	}
	return &connects{out: out}, nil
}

// watchConnects writes runsc's configuration of the sink, and returns the flag for it.
func watchConnects(dir string) (string, error) {
	c := boot.InitConfig{TraceSession: seccheck.SessionConfig{
		Name:   seccheck.DefaultSessionName,
		Points: []seccheck.PointConfig{{Name: "syscall/connect/enter"}},
		Sinks:  []seccheck.SinkConfig{{Name: sinkName}},
	}}
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "connects.json")
	return "--pod-init-config=" + file, os.WriteFile(file, text, 0o600)
}

// Name implements seccheck.Sink.
func (*connects) Name() string { return sinkName }

// Syscall implements seccheck.Sink. A line is shorter than what a pipe takes at once, so
// lines of several threads do not mix.
func (c *connects) Syscall(ctx context.Context, _ seccheck.FieldSet, _ *pb.ContextData, _ pb.MessageType, msg proto.Message) error {
	call, ok := msg.(*pb.Connect)
	if !ok {
		return nil
	}
	to, ok := destination(call.GetAddress())
	if !ok {
		return nil
	}
	_, err := c.out.Write(fmt.Appendf(nil, "connect %s %s\n", protocol(ctx, int32(call.GetFd())), to))
	return err
}

// destination returns the address in a sockaddr, if it is one of the internet.
func destination(address []byte) (netip.AddrPort, bool) {
	const port, ip4, ip6 = 2, 4, 8
	if len(address) < ip4+4 {
		return netip.AddrPort{}, false
	}
	number := uint16(address[port])<<8 | uint16(address[port+1])
	switch family := hostarch.ByteOrder.Uint16(address); {
	case family == linux.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(address[ip4:])), number), true
	case family == linux.AF_INET6 && len(address) >= ip6+16:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(address[ip6:])).Unmap(), number), true
	}
	return netip.AddrPort{}, false
}

// protocol is what the socket of a calling thread speaks.
func protocol(ctx context.Context, number int32) string {
	t := kernel.TaskFromContext(ctx)
	if t == nil {
		return "tcp"
	}
	file := t.GetFile(number)
	if file == nil {
		return "tcp"
	}
	defer file.DecRef(ctx)
	if s, ok := file.Impl().(socket.Socket); ok {
		if _, kind, _ := s.Type(); kind == linux.SOCK_DGRAM {
			return "udp"
		}
	}
	return "tcp"
}
