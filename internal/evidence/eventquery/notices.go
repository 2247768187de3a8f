package eventquery

import (
	"context"
	"sync"
)

// Notices says when a journal of a home changes, to any number of readers, with one
// watch. The zero value is ready; it watches while there are readers.
type Notices struct {
	mu      sync.Mutex
	readers map[chan struct{}]bool
	stop    func() // ends the watch
}

// Subscribe returns a channel that gets a value after a change. Changes while the
// reader is busy are one value. end must be called.
func (n *Notices) Subscribe(home string) (changed <-chan struct{}, end func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.readers) == 0 {
		if err := n.watch(home); err != nil {
			return nil, nil, err
		}
	}
	c := make(chan struct{}, 1)
	n.readers[c] = true
	return c, func() { n.unsubscribe(c) }, nil
}

func (n *Notices) unsubscribe(c chan struct{}) {
	n.mu.Lock()
	delete(n.readers, c)
	stop := n.stop
	if len(n.readers) > 0 {
		stop = nil
	}
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// watch begins to watch the journals.
func (n *Notices) watch(home string) error {
	w, err := watchJournals(home, journalMade|journalWritten)
	if err != nil {
		return err
	}
	n.readers = map[chan struct{}]bool{}
	w.overflow = func() error { return n.notify("") }
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go func() {
		defer w.close()
		// Readers also look from time to time without a notice.
		_ = w.each(ctx, n.notify)
	}()
	return nil
}

func (n *Notices) notify(string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.readers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return nil
}
