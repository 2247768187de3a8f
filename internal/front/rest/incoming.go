package rest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// incoming is the body of a request. Reading fails if no byte comes for a while, and if
// the body is cut off.
type incoming struct {
	io.ReadCloser
	conn  deadliner
	limit time.Duration
}

// deadliner is the connection of a request; an http.ResponseController is one.
type deadliner interface {
	SetReadDeadline(deadline time.Time) error
}

// receive bounds the time between two parts of a request's body, also of one that no
// route reads: the library takes it off the connection before it answers.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	limit := s.config.BodyTimeout
	if limit == 0 {
		limit = bodyTimeout
	}
	body := &incoming{r.Body, http.NewResponseController(w), limit}
	body.extend()
	r.Body = body
}

// extend gives the next part of the body its time.
func (b *incoming) extend() {
	// A connection without deadlines is inside this process.
	_ = b.conn.SetReadDeadline(time.Now().Add(b.limit))
}

func (b *incoming) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF: // one that is wrapped, or unexpected, is a failure
		// The connection is only watched now, for as long as the answer takes.
		_ = b.conn.SetReadDeadline(time.Time{})
		return n, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, &api.Error{Kind: api.Usage, Code: api.CodeSlow, Message: "the body did not arrive in time", Hint: "send it without a pause of " + b.limit.String()}
	}
	return n, api.Usagef("send all of it", "the body was cut off")
}
