package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/redact"
	"github.com/forkcell/forkcell/receipt"
)

// outputLimit returns how much of each stream is stored. A policy can only lower what
// the operator, or else the default, allows.
func outputLimit(ofPolicy, ofOperator int64) int64 {
	return narrower(ofPolicy, cmp.Or(ofOperator, api.DefaultOutputLimit))
}

// output stores a run's streams without secret values, and passes them on
// unchanged.
type output struct {
	streams [2]stream
	mu      sync.Mutex
	ended   bool // nothing will be added
	// changed, if set, is closed when something is added, or at the end.
	changed chan struct{}
}

// stream is what is stored of stdout or stderr.
type stream struct {
	blob   *store.BlobWriter
	clean  io.WriteCloser // removes secrets, and writes to the stream
	limit  int64
	length int64 // bytes that the stream had, without secrets
	err    error // why nothing more can be stored: not the limit
}

// newOutput stores at most limit bytes of each stream. It removes the given secrets
// and those of the environment.
func newOutput(s *store.Store, env []string, limit int64, more []redact.Secret) *output {
	_, secrets := redact.Env(env)
	secrets = append(secrets, more...)
	o := &output{}
	for i := range o.streams {
		st := &o.streams[i]
		st.blob, st.limit = s.NewBlob(), limit
		st.clean = redact.NewWriter(st, secrets)
	}
	return o
}

func (o *output) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.end()
	for i := range o.streams {
		o.streams[i].blob.Discard()
	}
}

func (o *output) stdout(to io.Writer) io.Writer { return &tee{o: o, stream: &o.streams[0], to: to} }
func (o *output) stderr(to io.Writer) io.Writer { return &tee{o: o, stream: &o.streams[1], to: to} }

// tee stores output, and then passes it on: what a caller has seen is stored.
type tee struct {
	o      *output
	stream *stream
	to     io.Writer
}

func (t *tee) Write(p []byte) (int, error) {
	t.o.put(t.stream.clean, p)
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

// put stores output.
func (o *output) put(to io.Writer, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tell()
	_, _ = to.Write(p) // streams do not fail
}

// store stores output without secrets.
func (o *output) store(stderr bool, p []byte) {
	i := 0
	if stderr {
		i = 1
	}
	o.put(&o.streams[i], p)
}

// Write stores as much as the limit allows, and counts the rest. Neither the limit nor
// a full disk may end the command: the loss is recorded, and the log is marked as
// truncated.
func (s *stream) Write(p []byte) (int, error) {
	s.length += int64(len(p))
	if left := s.limit - s.blob.Size(); s.err == nil && left > 0 {
		_, s.err = s.blob.Write(p[:min(int64(len(p)), left)])
	}
	return len(p), nil
}

func (s *stream) truncated() bool { return s.length > s.blob.Size() }

// cause says why a stream is truncated.
func (s *stream) cause() string {
	if s.err != nil {
		return s.err.Error()
	}
	return fmt.Sprintf("the limit is %d bytes", s.limit)
}

// losses returns what of the output was not stored, for a person, and as far as the
// limit is not the reason, for the receipt.
func (o *output) losses() (notes, gaps []string) {
	for i, name := range streamNames {
		s := &o.streams[i]
		if !s.truncated() {
			continue
		}
		notes = append(notes, fmt.Sprintf("only %d of %d bytes of %s are stored: %s", s.blob.Size(), s.length, name, s.cause()))
		if s.err != nil {
			gaps = append(gaps, fmt.Sprintf("evidence: %d bytes of output could not be stored: %v", s.length-s.blob.Size(), s.err))
		}
	}
	return notes, gaps
}

var streamNames = [2]string{"stdout", "stderr"}

// finish makes the logs durable. A stream without output has no log.
func (o *output) finish() ([]receipt.Log, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.end()
	var logs []receipt.Log
	for i := range o.streams {
		s := &o.streams[i]
		_ = s.clean.Close() // a stream does not fail
		if s.blob.Size() == 0 {
			s.blob.Discard()
			continue
		}
		log := receipt.Log{Stream: streamNames[i], Bytes: s.blob.Size(), Truncated: s.truncated()}
		if log.Truncated {
			log.Length = s.length
		}
		var err error
		if log.SHA256, err = s.blob.Commit(); err != nil {
			return logs, err
		}
		logs = append(logs, log)
	}
	return logs, nil
}

// signalTap passes signals on and remembers the first.
type signalTap struct {
	out   chan os.Signal
	quit  chan struct{}
	done  chan struct{}
	first int
}

func newSignalTap(in <-chan os.Signal) *signalTap {
	t := &signalTap{out: make(chan os.Signal), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		for {
			select {
			case <-t.quit:
				return
			case sig := <-in:
				if n, ok := sig.(syscall.Signal); ok && t.first == 0 {
					t.first = int(n)
				}
				select {
				case t.out <- sig:
				case <-t.quit:
					return
				}
			}
		}
	}()
	return t
}

// cancelOnSignal returns a context that is cancelled at the first signal that is
// not ignored, until stop is called.
func cancelOnSignal(ctx context.Context, in <-chan os.Signal, ignored ...os.Signal) (watched context.Context, stop func(), cancel context.CancelFunc) {
	watched, cancel = context.WithCancel(ctx)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case sig := <-in:
				if !slices.Contains(ignored, sig) {
					cancel()
					return
				}
			}
		}
	}()
	return watched, sync.OnceFunc(func() { close(quit); <-done }), cancel
}

// interruptKey is the byte that Ctrl-C sends.
const interruptKey = 3

// keyTap passes on the keys of a terminal, and remembers whether Ctrl-C was one of
// them: the cell's terminal turns the key into a signal, not the caller.
type keyTap struct {
	from    io.Reader
	pressed atomic.Bool
}

func (k *keyTap) Read(b []byte) (int, error) {
	n, err := k.from.Read(b)
	if bytes.IndexByte(b[:n], interruptKey) >= 0 {
		k.pressed.Store(true)
	}
	return n, err
}

// stop ends the tap and returns the number of the first signal, or 0.
func (t *signalTap) stop() int {
	close(t.quit)
	<-t.done
	return t.first
}

// tell wakes the readers. The caller holds the lock.
func (o *output) tell() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// end wakes the readers: nothing will be added. The caller holds the lock.
func (o *output) end() {
	o.ended = true
	o.tell()
}

// copy writes what is stored of a stream and, with follow, what is added to it.
func (o *output) copy(ctx context.Context, stderr, follow bool, w io.Writer) error {
	blob := o.streams[0].blob
	if stderr {
		blob = o.streams[1].blob
	}
	var f *os.File
	defer func() {
		if f != nil {
			_ = f.Close()
		}
	}()
	_, _ = w.Write(nil)
	for at := int64(0); ; {
		o.mu.Lock()
		size, ended, changed := blob.Size(), o.ended, o.awaitChange()
		var err error
		if f == nil && size > 0 {
			f, err = blob.Reader()
		}
		o.mu.Unlock()
		if err != nil {
			return fmt.Errorf("open the output: %w", err)
		}
		if f != nil {
			n, err := io.Copy(w, io.NewSectionReader(f, at, size-at))
			if at += n; err != nil {
				return err
			}
		}
		if ended || !follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitChange returns the channel that is closed at the next change. The caller holds
// the lock.
func (o *output) awaitChange() <-chan struct{} {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}
