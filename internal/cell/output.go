package cell

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/forkcell/forkcell/internal/redact"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// output stores a run's streams without secret values, and passes them on
// unchanged.
type output struct {
	blobs [2]*store.BlobWriter
	clean [2]io.WriteCloser
	mu    sync.Mutex
	left  int64 // how much may still be stored, if there is a limit
	limit int64
	lost  error // why not all of it was stored
	full  bool  // it is not the limit
	gone  int64 // bytes that were not stored
	ended bool  // nothing will be added
	// changed, if set, is closed when something is added, or at the end.
	changed chan struct{}
}

// newOutput stores at most limit bytes of both streams; 0 is no limit. It removes
// the given secrets and those of the environment.
func newOutput(s *store.Store, env []string, limit int64, more []redact.Secret) *output {
	_, secrets := redact.Env(env)
	secrets = append(secrets, more...)
	o := &output{limit: limit, left: limit}
	for i := range o.blobs {
		o.blobs[i] = s.NewBlob()
		o.clean[i] = redact.NewWriter(o.blobs[i], secrets)
	}
	return o
}

func (o *output) discard() {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.end()
	for _, b := range o.blobs {
		b.Discard()
	}
}

func (o *output) stdout(to io.Writer) io.Writer { return &tee{o: o, i: 0, to: to} }
func (o *output) stderr(to io.Writer) io.Writer { return &tee{o: o, i: 1, to: to} }

// tee stores output, and then passes it on: what a caller has seen is stored.
type tee struct {
	o  *output
	i  int
	to io.Writer
}

func (t *tee) Write(p []byte) (int, error) {
	t.o.keep(t.i, p)
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

// keep stores output. A full disk must not kill the command: the loss is noted, and
// the log is marked as truncated.
func (o *output) keep(i int, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(o.clean[i], p)
}

// put writes as much as the limit allows, and counts the rest.
func (o *output) put(to io.Writer, p []byte) {
	if o.lost != nil {
		o.gone += int64(len(p))
		return
	}
	if o.limit > 0 && int64(len(p)) > o.left {
		o.gone += int64(len(p)) - o.left
		p = p[:o.left]
		defer func() {
			if o.lost == nil {
				o.lost = fmt.Errorf("the limit is %d bytes", o.limit)
			}
		}()
	}
	o.left -= int64(len(p))
	o.tell()
	if n, err := to.Write(p); err != nil {
		o.lost, o.full = err, true
		o.gone += int64(len(p) - n)
	}
}

// store stores output without secrets, up to the limit.
func (o *output) store(stderr bool, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := 0
	if stderr {
		i = 1
	}
	o.put(o.blobs[i], p)
}

// gap describes, for the receipt, output that was lost for another reason than the
// requested limit.
func (o *output) gap() string {
	if !o.full {
		return ""
	}
	return fmt.Sprintf("evidence: %d bytes of output could not be stored: %v", o.gone, o.lost)
}

// finish makes the logs durable. A stream without output has no log.
func (o *output) finish() ([]receipt.Log, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.end()
	names := [2]string{"stdout", "stderr"}
	var logs []receipt.Log
	for i, b := range o.blobs {
		if err := o.clean[i].Close(); err != nil && o.lost == nil {
			o.lost = err
		}
		if b.Size() == 0 {
			b.Discard()
			continue
		}
		size := b.Size()
		digest, err := b.Commit()
		if err != nil {
			return logs, err
		}
		logs = append(logs, receipt.Log{Stream: names[i], SHA256: digest, Bytes: size, Truncated: o.lost != nil})
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

// end tells the readers that nothing will be added. The caller holds the lock.
func (o *output) end() {
	o.ended = true
	o.tell()
}

// copy writes what is stored of a stream and, with follow, what is added to it.
func (o *output) copy(ctx context.Context, stderr, follow bool, w io.Writer) error {
	blob := o.blobs[0]
	if stderr {
		blob = o.blobs[1]
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
