package authority_test

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/network/egress/authority"
)

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// helloOf returns the bytes that a client with these settings sends first.
func helloOf(tb testing.TB, config *tls.Config) []byte {
	tb.Helper()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, config).Handshake()
	}()
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		tb.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		tb.Fatal(err)
	}
	_ = server.Close()
	<-done
	return append(head, body...)
}

// split cuts the handshake message of one record into many records.
func split(record []byte, size int) []byte {
	var out []byte
	for part := range slices.Chunk(record[5:], size) {
		out = append(out, record[0], record[1], record[2], byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

// rename replaces the server name by one of the same length, which a client of
// ours would not send.
func rename(hello []byte, from, to string) []byte {
	return bytes.Replace(hello, []byte(from), []byte(to), 1)
}

// grease puts a reserved value (RFC 8701) in the place of a cipher suite.
func grease(hello []byte) []byte {
	out := bytes.Clone(hello)
	at := 5 + 4 + 2 + 32 // record, message, version, random
	at += 1 + int(out[at])
	out[at+2], out[at+3] = 0x4a, 0x4a
	return out
}

func TestPeekHello(t *testing.T) {
	t.Parallel()
	hello := func(name string, alpn ...string) []byte {
		return helloOf(t, &tls.Config{ServerName: name, NextProtos: alpn, InsecureSkipVerify: true})
	}
	plain := hello("api.example.com", "h2", "http/1.1")
	many := make([]string, 600)
	for i := range many {
		many[i] = strings.Repeat("p", 40)
	}
	for _, c := range []struct {
		name string
		in   []byte
		want authority.Hello
		err  error
	}{
		{"plain", plain, authority.Hello{ServerName: "api.example.com", ALPN: []string{"h2", "http/1.1"}}, nil},
		{"more behind it", slices.Concat(plain, []byte("more")), authority.Hello{ServerName: "api.example.com", ALPN: []string{"h2", "http/1.1"}}, nil},
		{"upper case", rename(plain, "api.example.com", "API.EXAMPLE.COM"), authority.Hello{ServerName: "api.example.com", ALPN: []string{"h2", "http/1.1"}}, nil},
		{"no name, no ALPN", hello(""), authority.Hello{}, nil},
		{"an address", rename(plain, "api.example.com", "192.168.100.123"), authority.Hello{ServerName: "192.168.100.123", ALPN: []string{"h2", "http/1.1"}}, nil},
		{"GREASE", grease(plain), authority.Hello{ServerName: "api.example.com", ALPN: []string{"h2", "http/1.1"}}, nil},
		{"TLS 1.2", helloOf(t, &tls.Config{ServerName: "old.example", MaxVersion: tls.VersionTLS12}), authority.Hello{ServerName: "old.example"}, nil},
		{"TLS 1.0", helloOf(t, &tls.Config{ServerName: "old.example", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}), authority.Hello{ServerName: "old.example"}, nil},
		{"in records of 7", split(plain, 7), authority.Hello{ServerName: "api.example.com", ALPN: []string{"h2", "http/1.1"}}, nil},
		{"in records of 1", split(plain[:5+20], 1), authority.Hello{}, authority.ErrHello},
		{"dot at the end", rename(plain, "api.example.com", "api.example.co."), authority.Hello{}, authority.ErrHello},
		{"wildcard", rename(plain, "api.example.com", "*.1.example.com"), authority.Hello{}, authority.ErrHello},
		{"NUL", rename(plain, "api.example.com", "api.example\x00com"), authority.Hello{}, authority.ErrHello},
		{"cut", plain[:len(plain)-1], authority.Hello{}, authority.ErrHello},
		{"empty", nil, authority.Hello{}, authority.ErrHello},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), authority.Hello{}, authority.ErrNotTLS},
		{"SSH", []byte("SSH-2.0-x\r\n"), authority.Hello{}, authority.ErrNotTLS},
		{"SSL 2", []byte{0x80, 0x2e, 0x01, 0x00, 0x02}, authority.Hello{}, authority.ErrNotTLS},
		{"an alert", []byte{21, 3, 1, 0, 2, 2, 40}, authority.Hello{}, authority.ErrNotTLS},
		{"a ServerHello", slices.Concat(plain[:5], []byte{2}, plain[6:]), authority.Hello{}, authority.ErrHello},
		{"too long", hello("api.example.com", many...), authority.Hello{}, authority.ErrHelloTooLong},
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r },
			"bytes":   iotest.OneByteReader,
			"halves":  iotest.HalfReader,
		} {
			from := bytes.NewReader(c.in)
			got, replay, err := authority.PeekHello(reader(from), 16<<10)
			if !errors.Is(err, c.err) {
				t.Errorf("%s, %s: %v, want %v", c.name, how, err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s, %s (-want +got)\n%s", c.name, how, diff)
			}
			if rest, _ := io.ReadAll(from); !bytes.Equal(slices.Concat(replay, rest), c.in) {
				t.Errorf("%s, %s: bytes were lost", c.name, how)
			}
		}
	}
}

// What is not TLS is known after its first byte, and nothing more is read.
func TestPeekHelloIsQuick(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	go func() { _, _ = client.Write([]byte("G")) }()
	if _, replay, err := authority.PeekHello(server, 16<<10); !errors.Is(err, authority.ErrNotTLS) || string(replay) != "G" {
		t.Errorf("replay %q, %v", replay, err)
	}
	broken := errors.New("broken")
	if _, _, err := authority.PeekHello(iotest.ErrReader(broken), 16<<10); !errors.Is(err, broken) || errors.Is(err, authority.ErrHello) {
		t.Errorf("the reader's error became %v", err)
	}
}

// After a peek the handshake goes on as if nothing had been read.
func TestPeekThenServe(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	client, server := net.Pipe()
	served := make(chan error, 1)
	go func() {
		hello, replay, err := authority.PeekHello(server, 16<<10)
		if err != nil {
			served <- err
			return
		}
		config, err := a.Config(hello.ServerName, hello.ALPN...)
		if err != nil {
			served <- err
			return
		}
		served <- tls.Server(&replayed{server, io.MultiReader(bytes.NewReader(replay), server)}, config).Handshake()
	}()
	conn := tls.Client(client, &tls.Config{ServerName: "a.example", RootCAs: pool(t, a.PEM()), NextProtos: []string{"h2"}})
	if err := conn.Handshake(); err != nil {
		t.Error(err)
	}
	// The server's session ticket waits in the pipe until it is read.
	go func() { _, _ = io.Copy(io.Discard, client) }()
	if err := <-served; err != nil {
		t.Error(err)
	}
	_, _ = client.Close(), server.Close()
}

type replayed struct {
	net.Conn
	r io.Reader
}

func (r *replayed) Read(b []byte) (int, error) { return r.r.Read(b) }

func FuzzPeekHello(f *testing.F) {
	plain := helloOf(f, &tls.Config{ServerName: "api.example.com", NextProtos: []string{"h2"}})
	f.Add(plain)
	f.Add(split(plain, 9))
	f.Add(grease(plain))
	f.Add(plain[:40])
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		const bound = 4096
		from := bytes.NewReader(b)
		hello, replay, err := authority.PeekHello(iotest.HalfReader(from), bound)
		if !bytes.HasPrefix(b, replay) || len(replay) != len(b)-from.Len() || len(replay) > bound {
			t.Fatalf("replay holds %d bytes of %d, %d are left", len(replay), len(b), from.Len())
		}
		if err != nil {
			if !cmp.Equal(hello, authority.Hello{}) {
				t.Fatal("a hello with an error")
			}
			return
		}
		again, _, err := authority.PeekHello(iotest.OneByteReader(bytes.NewReader(b)), bound)
		if err != nil || !cmp.Equal(hello, again) {
			t.Fatalf("read in bytes: %v, %v, before: %v", again, err, hello)
		}
		if hello.ServerName != strings.ToLower(hello.ServerName) || strings.HasSuffix(hello.ServerName, ".") {
			t.Fatalf("server name %q", hello.ServerName)
		}
	})
}

func BenchmarkPeekHello(b *testing.B) {
	plain := helloOf(b, &tls.Config{ServerName: "api.example.com", NextProtos: []string{"h2"}})
	for b.Loop() {
		if _, _, err := authority.PeekHello(bytes.NewReader(plain), 16<<10); err != nil {
			b.Fatal(err)
		}
	}
}
