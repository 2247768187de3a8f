package client

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	stream := newMessages(strings.NewReader(":\n\nevent: a\nid: 7\ndata: one\ndata:two\nretry: 1\n\r\n: comment\ndata: {}\n\nevent: cut\ndata: x"))
	first, err := stream.next()
	if err != nil || first.name != "a" || first.id != "7" || string(first.data) != "one\ntwo" {
		t.Errorf("%+v, %v", first, err)
	}
	second, err := stream.next()
	if err != nil || second.name != "" || string(second.data) != "{}" {
		t.Errorf("%+v, %v", second, err)
	}
	if m, err := stream.next(); !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v", m, err)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add("event: a\ndata: b\n\n")
	f.Add(":\n\r\n\rid\ndata")
	f.Fuzz(func(t *testing.T, text string) {
		stream := newMessages(strings.NewReader(text))
		for size := 0; ; {
			m, err := stream.next()
			if err != nil {
				return
			}
			if size += len(m.data); size > len(text) {
				t.Fatalf("%d bytes of data in a stream of %d", size, len(text))
			}
		}
	})
}
