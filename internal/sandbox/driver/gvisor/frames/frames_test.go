package frames

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	c := New(&wire, &wire, MaxToHost)
	want := []Frame{
		{Kind: Hello, Data: []byte("hello")},
		{Kind: Data, ID: 7, Stream: Err, Data: bytes.Repeat([]byte("x"), piece)},
		{Kind: End, ID: 1 << 31, Stream: In, Data: []byte{}},
	}
	for _, f := range want {
		if err := c.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range want {
		got, err := c.Read()
		if err != nil || got.Kind != f.Kind || got.ID != f.ID || got.Stream != f.Stream || !bytes.Equal(got.Data, f.Data) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := c.Read(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	long := New(nil, nil, 3)
	for name, b := range map[string][]byte{
		"too long":      {byte(Data), 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4},
		"fourth stream": {byte(Data), Streams, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if _, err := New(bytes.NewReader(b), nil, long.max).Read(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"no head": {byte(Data)}, "no data": {byte(Data), 0, 0, 0, 0, 0, 3, 0, 0, 0, 1}} {
		if _, err := New(bytes.NewReader(b), nil, long.max).Read(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ends are two connected ends. What the first one says is handed to do.
func ends(t *testing.T, do func(Frame) error) (first, second *Conn) {
	t.Helper()
	r, w := io.Pipe()
	back, answer := io.Pipe()
	first, second = New(back, w, MaxToHost), New(r, answer, MaxToHost)
	t.Cleanup(func() { _, _ = r.Close(), back.Close() })
	go func() {
		for {
			f, err := second.Read()
			if err == nil {
				err = do(f)
			}
			if err != nil {
				return
			}
		}
	}()
	return first, second
}

// TestStream carries more than a window, and waits for who takes it.
func TestStream(t *testing.T) {
	t.Parallel()
	data := make([]byte, 5*Window+17)
	src := rand.NewChaCha8([32]byte{2})
	_, _ = src.Read(data)
	var receiver *Receiver
	under := 0
	first, second := ends(t, func(f Frame) error {
		if f.Kind == End {
			receiver.End()
			return nil
		}
		if under += len(f.Data); under > len(data) {
			t.Errorf("%d bytes came", under)
		}
		return receiver.Put(f.Data)
	})
	receiver = NewReceiver(second, 1, Out)
	sender := NewSender(first, 1, Out)
	go func() {
		for {
			f, err := first.Read()
			if err != nil {
				return
			}
			if n, err := ReadNumber(f.Data); f.Kind != Taken || err != nil || sender.Taken(n) != nil {
				t.Errorf("%+v, %v", f, err)
			}
		}
	}()
	go sender.Copy(bytes.NewReader(data))
	var got bytes.Buffer
	if err := receiver.Copy(&got); err != nil || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d bytes of %d, %v", got.Len(), len(data), err)
	}
}

// TestOverrun: who sends more than there is room for breaks the protocol.
func TestOverrun(t *testing.T) {
	t.Parallel()
	r := NewReceiver(New(nil, io.Discard, 0), 1, Out)
	if err := r.Put(make([]byte, Window)); err != nil {
		t.Fatal(err)
	}
	if err := r.Put([]byte{1}); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if err := NewSender(New(nil, io.Discard, 0), 1, In).Taken(1); !errors.Is(err, ErrMalformed) {
		t.Error("room that was never used:", err)
	}
}

// TestRenew: a stream that is full goes on when the other side is another one. The piece
// that waits to be written counts in the new room.
func TestRenew(t *testing.T) {
	t.Parallel()
	sent := make(chan int)
	first, _ := ends(t, func(f Frame) error {
		sent <- len(f.Data)
		return nil
	})
	sender := NewSender(first, 1, Out)
	source, fill := io.Pipe()
	defer fill.Close()
	go sender.Copy(source)
	go func() { _, _ = fill.Write(make([]byte, 2*Window)) }()
	for left := Window; left > 0; {
		left -= <-sent
	}
	sender.Renew()
	for left := Window - piece; left > 0; { // the last piece may count as one that is being written
		left -= <-sent
	}
	waiting := NewSender(first, 1, Out)
	waiting.take(piece)
	waiting.Renew()
	if waiting.room != Window-piece {
		t.Errorf("%d bytes of room", waiting.room)
	}
}

// TestBrokenWriter: the other side is told, and what is under way is dropped.
func TestBrokenWriter(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	r := NewReceiver(New(nil, &said, 0), 3, Err)
	if err := r.Put([]byte("x")); err != nil {
		t.Fatal(err)
	}
	broken, w := io.Pipe()
	_ = broken.Close()
	if err := r.Copy(w); err == nil {
		t.Error("the writer did not fail")
	}
	f, err := New(&said, nil, 16).Read()
	if err != nil || f.Kind != Stop || f.ID != 3 || f.Stream != Err {
		t.Errorf("%+v, %v", f, err)
	}
	for range 3 {
		if err := r.Put(make([]byte, Window)); err != nil {
			t.Error(err)
		}
	}
}

// FuzzRead reads what a hostile guest could send: no frame is longer than allowed, and
// what was read can be written again.
func FuzzRead(f *testing.F) {
	f.Add([]byte{byte(Data), 0, 1, 0, 0, 0, 2, 0, 0, 0, 'a', 'b'})
	f.Add([]byte{byte(Report), 0, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 16
		c := New(bytes.NewReader(b), nil, most)
		var again bytes.Buffer
		out := New(nil, &again, most)
		for {
			frame, err := c.Read()
			if err != nil {
				break
			}
			if len(frame.Data) > most || out.Write(frame) != nil {
				t.Fatalf("%d bytes", len(frame.Data))
			}
		}
		if !bytes.HasPrefix(b, again.Bytes()) {
			t.Error("not the same bytes")
		}
	})
}
