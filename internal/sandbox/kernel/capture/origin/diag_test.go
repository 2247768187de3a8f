package origin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// answerTo returns the kernel's answer about a flow.
func answerTo(flow []byte, inode uint32) []byte {
	b := make([]byte, diagAnswerSize)
	binary.NativeEndian.PutUint32(b, diagAnswerSize)
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	copy(b[diagAnswerID:], flow)
	binary.NativeEndian.PutUint32(b[diagInode:], inode)
	return b
}

func refusal(errno unix.Errno) []byte {
	b := make([]byte, 36)
	binary.NativeEndian.PutUint32(b, 36)
	binary.NativeEndian.PutUint16(b[4:], unix.NLMSG_ERROR)
	binary.NativeEndian.PutUint32(b[16:], uint32(-int32(errno)))
	return b
}

func TestDiagAnswer(t *testing.T) {
	t.Parallel()
	flow := diagRequest(unix.IPPROTO_TCP, netip.MustParseAddrPort("192.0.2.2:9"), netip.MustParseAddrPort("1.2.3.4:80"))[diagRequestID:][:diagFlow]
	other := bytes.Clone(flow)
	other[0]++
	mapped := diagRequest(unix.IPPROTO_TCP, netip.MustParseAddrPort("[::ffff:192.0.2.2]:9"), netip.MustParseAddrPort("[::ffff:1.2.3.4]:80"))[diagRequestID:][:diagFlow]
	half := append(bytes.Clone(mapped[:diagAddrs+16]), make([]byte, 16)...)
	for name, c := range map[string]struct {
		in    []byte
		inode uint32
		err   error
	}{
		"found":      {answerTo(flow, 77), 77, nil},
		"orphan":     {answerTo(flow, 0), 0, nil},
		"mapped":     {answerTo(mapped, 77), 77, nil},
		"half":       {answerTo(half, 77), 0, nil},
		"other flow": {answerTo(other, 77), 0, nil},
		"none":       {refusal(unix.ENOENT), 0, nil},
		"refused":    {refusal(unix.EINVAL), 0, unix.EINVAL},
		"no error":   {refusal(0), 0, errDiag},
		"short":      {answerTo(flow, 77)[:60], 0, errDiag},
		"empty":      {nil, 0, errDiag},
		"other kind": {append([]byte{36, 0, 0, 0, 3, 0}, make([]byte, 30)...), 0, errDiag},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inode, err := diagAnswer(c.in, flow)
			if inode != c.inode || !errors.Is(err, c.err) {
				t.Errorf("%d, %v", inode, err)
			}
		})
	}
}

func FuzzDiagAnswer(f *testing.F) {
	flow := make([]byte, diagFlow)
	f.Add(answerTo(flow, 1))
	f.Add(refusal(unix.ENOENT))
	f.Fuzz(func(t *testing.T, b []byte) {
		if inode, err := diagAnswer(b, flow); err != nil && inode != 0 {
			t.Errorf("%d and %v", inode, err)
		}
	})
}
