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

// checkEvery is how much of an upload arrives between two looks at the caller's quota.
const checkEvery = 8 << 20

// meteredReader asks check from time to time whether reading may go on.
type meteredReader struct {
	r     io.Reader
	check func() error
	since int
}

func (m *meteredReader) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if m.since += n; m.since >= checkEvery && err == nil {
		m.since, err = 0, m.check()
	}
	return n, err
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
