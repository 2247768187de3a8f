package client

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	maxAttempts = 5
	firstWait   = 50 * time.Millisecond
	// longestWait is the longest time that the daemon may ask a call to wait before
	// it is sent again. A longer one is left to the caller.
	longestWait = 30 * time.Second
)

// retryAfter reports whether a call failed in a way that may pass, and when it may be
// sent again: no answer came, or the daemon had no room for the request.
func retryAfter(resp *http.Response, err error, attempt int) (time.Duration, bool) {
	if attempt >= maxAttempts {
		return 0, false
	}
	wait := firstWait << (attempt - 1)
	wait += rand.N(wait) //nolint:gosec // it spreads callers over time; nothing depends on it
	if err != nil {
		return wait, true
	}
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil {
		return wait, resp.StatusCode == http.StatusServiceUnavailable
	}
	asked := time.Duration(seconds) * time.Second
	return max(asked, wait), asked <= longestWait
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
