package execwire

import "io"

// The keys that detach from a terminal, one after the other: Ctrl-P, Ctrl-Q.
const (
	detachFirst  = 0x10
	detachSecond = 0x11
)

// DetachKeys returns a reader that passes bytes on until Ctrl-P Ctrl-Q, and
// then fails with ErrDetached. It holds a Ctrl-P back until the next byte.
func DetachKeys(r io.Reader) io.Reader { return &detachKeys{r: r} }

type detachKeys struct {
	r     io.Reader
	raw   [1 << 10]byte
	ready []byte
	held  bool  // a Ctrl-P was read
	err   error // to be returned after the bytes that are ready
}

func (d *detachKeys) Read(p []byte) (int, error) {
	for len(d.ready) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		n, err := d.r.Read(d.raw[:])
		d.err = err
		d.filter(d.raw[:n])
		if d.err != nil && d.held {
			d.ready, d.held = append(d.ready, detachFirst), false
		}
	}
	n := copy(p, d.ready)
	d.ready = d.ready[n:]
	return n, nil
}

func (d *detachKeys) filter(p []byte) {
	d.ready = d.ready[:0]
	for _, b := range p {
		if d.held {
			d.held = false
			if b == detachSecond {
				d.err = ErrDetached
				return
			}
			d.ready = append(d.ready, detachFirst)
		}
		if b == detachFirst {
			d.held = true
			continue
		}
		d.ready = append(d.ready, b)
	}
}
