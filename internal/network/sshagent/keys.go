package sshagent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/forkcell/forkcell/internal/network/sshkey"
)

// Local returns a key that this process holds.
func Local(k *sshkey.PrivateKey) Key { return localKey{k} }

type localKey struct{ key *sshkey.PrivateKey }

func (l localKey) Blob() []byte { return l.key.Public().Blob() }

func (l localKey) Sign(_ context.Context, _, data []byte, algorithm string) ([]byte, error) {
	return l.key.Sign(data, algorithm)
}

// Upstream is the operator's own agent.
type Upstream struct {
	// Socket is the path of its socket.
	Socket string
}

// ErrNoKey is returned for a key that the operator's agent does not have.
var ErrNoKey = errors.New("the agent has no such key")

// maxAnswer bounds an answer of the operator's agent.
const maxAnswer = 256 << 10

// timeout is how long the operator's agent may take: it may ask a person.
const timeout = time.Minute

// Key returns the key with a fingerprint.
func (u Upstream) Key(ctx context.Context, fingerprint string) (Key, error) {
	answers, err := u.ask(ctx, []byte{requestIdentities})
	if err != nil {
		return nil, err
	}
	r := sshkey.NewReader(answers[0])
	if kind, count := r.Byte(), r.Uint32(); kind == identitiesAnswer {
		for range min(count, maxAnswer) {
			blob, _ := r.Bytes(), r.Bytes()
			if !r.Ok() {
				break
			}
			if sshkey.Fingerprint(blob) == fingerprint {
				return upstreamKey{u, bytes.Clone(blob)}, nil
			}
		}
	}
	return nil, ErrNoKey
}

type upstreamKey struct {
	agent Upstream
	blob  []byte
}

func (k upstreamKey) Blob() []byte { return k.blob }

// Sign asks the agent. The agent is told the session first, for keys that it restricts
// to hosts; one that does not know the extension says so.
func (k upstreamKey) Sign(ctx context.Context, bind, data []byte, algorithm string) ([]byte, error) {
	flags := uint32(0)
	switch algorithm {
	case sshkey.RSASHA256:
		flags = flagSHA256
	case sshkey.RSASHA512:
		flags = flagSHA512
	}
	request := sshkey.AppendString(sshkey.AppendString([]byte{signRequest}, k.blob), data)
	answers, err := k.agent.ask(ctx, bind, binary.BigEndian.AppendUint32(request, flags))
	if err != nil {
		return nil, err
	}
	r := sshkey.NewReader(answers[1])
	kind, signature := r.Byte(), r.Bytes()
	if kind != signResponse || !r.Done() || sshkey.TypeOf(signature) != algorithm || len(signature) > maxMessage {
		return nil, errors.New("the operator's agent does not sign")
	}
	return signature, nil
}

// ask sends requests on a new connection and returns the answers.
func (u Upstream) ask(ctx context.Context, requests ...[]byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", u.Socket)
	if err != nil {
		return nil, fmt.Errorf("the operator's agent: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var answers [][]byte
	for _, q := range requests {
		if _, err := conn.Write(frame(q)); err != nil {
			return nil, fmt.Errorf("the operator's agent: %w", err)
		}
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return nil, fmt.Errorf("the operator's agent: %w", err)
		}
		size := binary.BigEndian.Uint32(head[:])
		if size == 0 || size > maxAnswer {
			return nil, errors.New("the operator's agent: a malformed answer")
		}
		answer := make([]byte, size)
		if _, err := io.ReadFull(conn, answer); err != nil {
			return nil, fmt.Errorf("the operator's agent: %w", err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}
