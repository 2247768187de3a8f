package server

import (
	"errors"
	"io"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"
)

// maxUpload bounds a body that is not JSON.
const maxUpload = 16 << 30

// upload is the body of a request that may be large. It fails if it is too large.
type upload struct {
	body io.Reader
}

func newUpload(x *exchange) *upload {
	return &upload{http.MaxBytesReader(x.w, x.r.Body, maxUpload)}
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		err = &api.Error{Kind: api.Usage, Code: api.CodeTooLarge, Message: "the body is too large", Hint: "send at most 16 GiB"}
	}
	return n, err
}
