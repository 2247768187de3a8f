package forward

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// TestMainConnects passes both directions and both ends on.
func TestMainConnects(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		sent, _ := io.ReadAll(c) // ends when the caller's input does
		_, _ = io.WriteString(c, "got "+string(sent))
	}()
	var out, errs strings.Builder
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if code := Main([]string{Verb, port}, strings.NewReader("question"), &out, &errs); code != Done || out.String() != "got question" {
		t.Errorf("exit %d, %q, %s", code, out.String(), errs.String())
	}
}

func TestMainRefuses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	for _, k := range []struct {
		args []string
		code int
	}{
		{[]string{Verb, port}, NoListen},
		{[]string{Verb, "0"}, Failed},
		{[]string{Verb, "65536"}, Failed},
		{[]string{Verb, "x"}, Failed},
		{[]string{Verb}, Failed},
		{[]string{"send", "1"}, Failed},
		{nil, Failed},
	} {
		var errs strings.Builder
		if code := Main(k.args, strings.NewReader(""), io.Discard, &errs); code != k.code || errs.Len() == 0 {
			t.Errorf("%q: exit %d, %q", k.args, code, errs.String())
		}
	}
}
