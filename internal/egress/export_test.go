package egress

// FrameStarts returns the beginnings of the frames in pieces of what goes one way.
func FrameStarts(pieces ...[]byte) [][]byte {
	var f frames
	var out [][]byte
	for _, b := range pieces {
		for {
			var head []byte
			if head, b = f.next(b); head == nil {
				break
			}
			out = append(out, append([]byte(nil), head...))
		}
	}
	return out
}

// MemoryHeld returns what is taken of the budget.
func (p *Proxy) MemoryHeld() int64 {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	return p.lim.Memory - p.memory.left
}
