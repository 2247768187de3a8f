package history

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

const (
	// requestsWaiting is the number of requests that wait to be written.
	requestsWaiting = 4096
	// requestFileSize is the size at which the next file begins, and requestsKept
	// bounds all of them together.
	requestFileSize = 16 << 20
	requestsKept    = 512 << 20
	// signEvery is the time between two statements about the journal.
	signEvery = time.Hour
)

// RequestJournal is the journal of the requests to a daemon. A request only waits for
// a place in a queue; one goroutine writes the records, which reach the kernel at once.
// Statements in the log of the home say how much was written: once an hour, at the end
// of each file, and when it is closed.
type RequestJournal struct {
	h       *History
	calls   chan timedCall
	closing chan struct{}
	ended   chan struct{}

	// The rest belongs to the goroutine that writes.
	number int64
	file   *os.File
	log    *event.Journal
	signed uint64
	// strangers are the senders without a valid token.
	strangers unknownSenders
}

type timedCall struct {
	event.Call
	at time.Time
}

// OpenRequests begins the journal of a daemon. The caller holds the daemon's lock.
func (h *History) OpenRequests() (*RequestJournal, error) {
	files, err := h.Store.Segments()
	if err != nil {
		return nil, err
	}
	j := &RequestJournal{h: h, calls: make(chan timedCall, requestsWaiting), closing: make(chan struct{}), ended: make(chan struct{})}
	if len(files) > 0 {
		j.number = files[len(files)-1]
	}
	go j.write()
	return j, nil
}

// Record records a request that was answered. After Close it does nothing.
func (j *RequestJournal) Record(c event.Call) {
	select {
	case j.calls <- timedCall{c, j.h.Now()}:
	case <-j.closing:
	}
}

// Close writes what waits, and signs it.
func (j *RequestJournal) Close() {
	close(j.closing)
	<-j.ended
}

func (j *RequestJournal) write() {
	defer close(j.ended)
	ticker := time.NewTicker(signEvery)
	defer ticker.Stop()
	counts := time.NewTicker(strangerWindow)
	defer counts.Stop()
	for {
		select {
		case c := <-j.calls:
			j.report("write", j.admit(c))
		case <-counts.C:
			j.report("write", j.count(true))
		case <-ticker.C:
			j.report("sign", j.sign())
		case <-j.closing:
			for len(j.calls) > 0 {
				j.report("write", j.admit(<-j.calls))
			}
			j.report("write", j.count(true))
			j.report("close", j.end())
			return
		}
	}
}

func (j *RequestJournal) report(what string, err error) {
	if err != nil {
		j.h.Logger.Error("journal of requests", "step", what, "error", err)
	}
}

// admit writes the record of a request, or counts the request.
func (j *RequestJournal) admit(c timedCall) error {
	err := j.count(false)
	if j.strangers.admit(c) {
		err = errors.Join(err, j.append(c))
	}
	return err
}

// count writes how many requests were only counted, if their time has ended.
func (j *RequestJournal) count(end bool) (err error) {
	for _, c := range j.strangers.take(j.h.Now(), end) {
		err = errors.Join(err, j.append(c))
	}
	return err
}

// append writes a record, at first in a new file.
func (j *RequestJournal) append(c timedCall) error {
	if j.log != nil && j.log.Size() > requestFileSize {
		if err := j.end(); err != nil {
			return err
		}
	}
	if j.log == nil {
		if err := j.begin(); err != nil {
			return err
		}
	}
	return j.log.Append(event.API(event.Subject{Time: c.at}, c.Call))
}

// begin makes the next file.
func (j *RequestJournal) begin() (err error) {
	if j.file, err = j.h.Store.CreateSegment(j.number + 1); err != nil {
		return fmt.Errorf("make a file: %w", err)
	}
	j.number++
	j.signed = 0
	// No two requests are alike: each has an id.
	j.log, err = event.Create(j.file, event.Meta{Run: requestFile(j.number), Version: j.h.Version}, event.Options{Window: -1, Now: j.h.Now})
	return err
}

// end signs the file and closes it.
func (j *RequestJournal) end() error {
	if j.log == nil {
		return nil
	}
	err := errors.Join(j.sign(), j.file.Close())
	j.log, j.file = nil, nil
	return err
}

// sign states how much was written, and removes old files that the statement leaves
// out.
func (j *RequestJournal) sign() error {
	if j.log == nil {
		return nil
	}
	sum, err := j.log.Sync()
	if err != nil || sum.Records == j.signed {
		return err
	}
	oldest, old, err := j.tooOld()
	if err != nil {
		return err
	}
	p := &receipt.Journal{Segment: j.number, Oldest: oldest, Records: int64(sum.Records), ChainHead: sum.Head}
	if err := j.h.Store.Update(func(tx *store.Tx) error { return j.h.Evidence.Journal(tx, p) }); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	j.signed = sum.Records
	for _, n := range old {
		err = errors.Join(err, j.h.Store.DropSegment(n))
	}
	return err
}

// tooOld returns the oldest file to keep, and those before it.
func (j *RequestJournal) tooOld() (oldest int64, old []int64, err error) {
	files, err := j.h.Store.Segments()
	if err != nil {
		return 0, nil, err
	}
	total := int64(0)
	for i := len(files) - 1; i >= 0; i-- {
		info, err := os.Lstat(j.h.Store.SegmentPath(files[i]))
		if err != nil {
			return 0, nil, err
		}
		if total += info.Size(); total > requestsKept && i < len(files)-1 {
			return files[i+1], files[:i+1], nil
		}
	}
	if len(files) == 0 {
		return 0, nil, fmt.Errorf("the file %s is gone: %w", requestFile(j.number), os.ErrNotExist)
	}
	return files[0], nil, nil
}
