package rest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
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

// spending is a body whose bytes are taken out of the sender's quota of disk space.
type spending struct {
	r      io.Reader
	budget caller.Budget
	read   int64
}

func (b *spending) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.read += int64(n)
	return n, cmp.Or(b.budget.Use(b.read), err)
}

// withinQuota calls write with the body of a request, which ends with an error where the
// sender's quota of disk space does.
func (x *exchange) withinQuota(ctx context.Context, write func(body io.Reader) error) error {
	if err := x.server.roomOnDisk(ctx, x.call); err != nil {
		return err
	}
	body := newUpload(x)
	begin := x.server.budget(x.call)
	if begin == nil {
		return write(body)
	}
	budget, err := begin(ctx)
	if err != nil {
		return err
	}
	defer budget.Close()
	return write(&spending{r: body, budget: budget})
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
