package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// maxUpload bounds a body that is not JSON.
const maxUpload = 16 << 30

// upload is the body of a request that may be large. It fails if no byte comes for a
// while, if it is too large, and if it is cut off.
type upload struct {
	body io.Reader
	rc   *http.ResponseController
}

func newUpload(x *exchange) *upload {
	return &upload{http.MaxBytesReader(x.w, x.r.Body, maxUpload), http.NewResponseController(x.w)}
}

func (u *upload) Read(p []byte) (int, error) {
	// A connection without deadlines is a test's.
	_ = u.rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	n, err := u.body.Read(p)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
	case err == io.EOF: //nolint:errorlint // one that is wrapped, or unexpected, is a failure
		_ = u.rc.SetReadDeadline(time.Time{})
	case large:
		err = &api.Error{Kind: api.Usage, Code: api.CodeTooLarge, Message: "the body is too large", Hint: "send at most 16 GiB"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &api.Error{Kind: api.Usage, Code: api.CodeSlow, Message: "the body did not arrive in time", Hint: "send it without a pause of 30 s"}
	default:
		err = api.Usagef("send all of it", "the body was cut off")
	}
	return n, err
}
