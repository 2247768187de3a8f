package token

// Budget is what a quota of disk space leaves for one piece of work. All work of a token
// that is under way shares what is left.
type Budget struct {
	l      *Limiter
	id     string
	most   int64 // the quota
	beside int64 // what the token used when the work began
	own    int64 // what the work takes now
}

// Budget begins a piece of work of a token that uses so many bytes. The token has a quota
// of disk space.
func (l *Limiter) Budget(g Grant, used int64) *Budget {
	return &Budget{l: l, id: g.ID, most: g.Quota.Disk, beside: used}
}

// Use records how many bytes the work takes now. If they are more than the quota has
// room for, the error is an *ExceededError.
func (b *Budget) Use(bytes int64) error {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	u := b.l.of(b.id)
	u.held.Disk += bytes - b.own
	b.own = bytes
	if b.beside+u.held.Disk > b.most {
		return &ExceededError{Quota: QuotaDisk}
	}
	return nil
}

// Left returns how much more the work may take.
func (b *Budget) Left() int64 {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	return b.most - b.beside - b.l.of(b.id).held.Disk
}

// Close ends the work. What it has made counts where it is recorded.
func (b *Budget) Close() { _ = b.Use(0) }
