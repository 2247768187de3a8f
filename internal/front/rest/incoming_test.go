package rest

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// deadlines notes what is set.
type deadlines []time.Time

func (d *deadlines) SetReadDeadline(at time.Time) error {
	*d = append(*d, at)
	return nil
}

// TestIncoming: each part of a body has its own time, and after it there is no limit.
func TestIncoming(t *testing.T) {
	t.Parallel()
	var set deadlines
	begin := time.Now()
	body := &incoming{io.NopCloser(iotest.OneByteReader(strings.NewReader("abc"))), &set, time.Hour}
	text, err := io.ReadAll(body)
	if string(text) != "abc" || err != nil || len(set) != 5 || !set[4].IsZero() { // three parts, the end, and no limit
		t.Fatalf("%q, %v, %v", text, err, set)
	}
	for i, at := range set[:4] {
		if at.Before(begin.Add(time.Hour)) || i > 0 && at.Before(set[i-1]) {
			t.Errorf("%v", set)
		}
	}
}

// TestIncomingFails tells a body that is late from one that is cut off.
func TestIncomingFails(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]api.Code{
		os.ErrDeadlineExceeded: api.CodeSlow, io.ErrUnexpectedEOF: api.CodeUsage, io.ErrClosedPipe: api.CodeUsage,
	} {
		var set deadlines
		body := &incoming{io.NopCloser(io.MultiReader(strings.NewReader("a"), iotest.ErrReader(cause))), &set, time.Minute}
		_, err := io.ReadAll(body)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != want || e.Kind != api.Usage {
			t.Errorf("%v: %v", cause, err)
		}
		if last := set[len(set)-1]; last.IsZero() {
			t.Errorf("%v: the rest of the body has no limit", cause)
		}
	}
}
