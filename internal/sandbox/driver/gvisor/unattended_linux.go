package gvisor

import (
	"maps"

	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
)

// droppedOutput discards the output of unattended commands, for which the guest gets room
// again. A restored guest has such commands: those of the one that was saved.
type droppedOutput struct {
	lastID uint32 // of those commands
	bytes  map[streamID]int
	told   bool // a goroutine informs the guest
}

type streamID struct {
	command uint32
	stream  byte
}

// follow makes the cell continue one that was saved.
func (c *Cell) follow(lastID uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID, c.drops.lastID = lastID, lastID
}

// handleUnattended handles a stream of a command without a client: its output is
// dropped. What comes of a command of this cell that has ended gets no room: the guest
// was told that no more is wanted.
func (c *Cell) handleUnattended(f frames.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Kind != frames.Data || f.ID > c.drops.lastID {
		return nil
	}
	if c.drops.bytes == nil {
		c.drops.bytes = map[streamID]int{}
	}
	s := streamID{f.ID, f.Stream}
	if c.drops.bytes[s] += len(f.Data); c.drops.bytes[s] > frames.Window {
		return frames.ErrMalformed
	}
	if !c.drops.told {
		c.drops.told = true
		// Not on this goroutine, which reads the answers that writing may wait for.
		go c.tellDropped()
	}
	return nil
}

// tellDropped makes room for what was dropped, until there is nothing to tell.
func (c *Cell) tellDropped() {
	for {
		c.mu.Lock()
		dropped := maps.Clone(c.drops.bytes)
		clear(c.drops.bytes)
		c.drops.told = len(dropped) > 0
		c.mu.Unlock()
		if len(dropped) == 0 {
			return
		}
		for s, n := range dropped {
			// A guest that is gone needs no room.
			_ = c.conn.Write(frames.Frame{Kind: frames.Taken, ID: s.command, Stream: s.stream, Data: frames.Number(uint32(n))})
		}
	}
}
