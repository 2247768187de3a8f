package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// The frames that open a connection. The others are those of package execwire.
const (
	kindHello   execwire.Kind = 1 // both ways: protocol versions
	kindRequest execwire.Kind = 2 // client: its request; once
)

const (
	headerSize = 5
	// maxMessage bounds requests and answers: the kernel allows arguments and
	// environment of some megabytes, which base64 makes larger.
	maxMessage = 16 << 20
	// maxSmall bounds every other frame.
	maxSmall = 4 << 10
)

// limitOf returns the longest payload of a kind; ok is false if there is no such kind.
func limitOf(k execwire.Kind) (limit int, ok bool) {
	switch k {
	case kindRequest, execwire.Result, execwire.Error:
		return maxMessage, true
	case execwire.Started:
		return maxSmall + 4*maxKeptArgs, true
	case execwire.Stdin, execwire.Stdout, execwire.Stderr:
		return execwire.MaxData, true
	case execwire.StdinEnd:
		return 0, true
	case kindHello, execwire.Window, execwire.Resize, execwire.Signal, execwire.OutputEnd, execwire.Exit:
		return maxSmall, true
	default:
		return 0, false
	}
}

// frameReader reads frames. It never allocates more than a peer has sent.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 4<<10)}
}

// next reads a frame. The payload is valid until the next call. io.EOF means
// that the peer ended between two frames; a frame that is not allowed is an
// [*Error].
func (f *frameReader) next() (execwire.Kind, []byte, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, err
	}
	k, size := execwire.Kind(head[0]), binary.BigEndian.Uint32(head[1:])
	limit, ok := limitOf(k)
	if !ok {
		return 0, nil, protocolError("no frame has type %d", k)
	}
	if uint64(size) > uint64(limit) {
		return 0, nil, protocolError("a frame of type %d with %d bytes: at most %d are allowed", k, size, limit)
	}
	payload, err := f.payload(int(size))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return k, payload, err
}

// payload reads size bytes. It allocates memory for a large payload as the
// bytes arrive, so that a header alone costs nothing.
func (f *frameReader) payload(size int) ([]byte, error) {
	if size > execwire.MaxData {
		var b bytes.Buffer
		_, err := io.CopyN(&b, f.r, int64(size))
		return b.Bytes(), err
	}
	if cap(f.buf) < size {
		f.buf = make([]byte, max(size, min(2*cap(f.buf), execwire.MaxData)))
	}
	p := f.buf[:size]
	_, err := io.ReadFull(f.r, p)
	return p, err
}

// appendFrame adds a frame to b. The payload is within the limit of its kind.
func appendFrame(b []byte, k execwire.Kind, payload []byte) []byte {
	b = append(b, byte(k), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(b[len(b)-4:], uint32(len(payload)))
	return append(b, payload...)
}

// appendMessage adds a frame with v as JSON.
func appendMessage(b []byte, k execwire.Kind, v any) ([]byte, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return b, fmt.Errorf("encode message: %w", err)
	}
	if limit, _ := limitOf(k); len(payload) > limit {
		return b, &api.Error{Kind: api.Failed, Code: api.CodeTooLarge, Message: fmt.Sprintf("a message of %d bytes: at most %d can be sent", len(payload), limit)}
	}
	return appendFrame(b, k, payload), nil
}

// decode reads a message. It refuses unknown fields, because ignoring a field
// would ignore a part of the request.
func decode(payload []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return protocolError("a message cannot be understood: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return protocolError("something follows a message")
	}
	return nil
}

// setFrame rewrites the header of the one frame that b holds.
func setFrame(b []byte, k execwire.Kind) {
	b[0] = byte(k)
	binary.BigEndian.PutUint32(b[1:headerSize], uint32(len(b)-headerSize))
}
