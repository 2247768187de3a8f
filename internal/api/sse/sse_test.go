package sse

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReader(t *testing.T) {
	t.Parallel()
	stream := NewReader(strings.NewReader(":\n\nevent: a\nid: 7\ndata: one\ndata:two\nretry: 1\n\r\n: comment\ndata: {}\n\nevent: cut\ndata: x"))
	first, err := stream.Next()
	if err != nil || first.Name != "a" || first.ID != "7" || string(first.Data) != "one\ntwo" {
		t.Errorf("%+v, %v", first, err)
	}
	second, err := stream.Next()
	if err != nil || second.Name != "" || string(second.Data) != "{}" {
		t.Errorf("%+v, %v", second, err)
	}
	if m, err := stream.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v", m, err)
	}
}

// letters is a line without an end.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]io.Reader{
		"a line": letters{}, "many lines": io.MultiReader(strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", maxEvent>>20)), letters{}),
	} {
		if m, err := NewReader(stream).Next(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %d bytes, %v", name, len(m.Data), err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add("event: a\ndata: b\n\n")
	f.Add(":\n\r\n\rid\ndata")
	f.Fuzz(func(t *testing.T, text string) {
		stream := NewReader(strings.NewReader(text))
		for size := 0; ; {
			m, err := stream.Next()
			if err != nil {
				return
			}
			if size += len(m.Data); size > len(text) {
				t.Fatalf("%d bytes of data in a stream of %d", size, len(text))
			}
		}
	})
}
