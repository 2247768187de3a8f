package token

// Budget is what a quota of disk space leaves for one piece of work. All work of a token
// that is under way shares what is left.
type Budget struct {
	l      *Limiter
	id     string
	most   int64 // the quota
	beside int64 // what the token used when the work began
	own    int64 // what the work takes now
	ended  int64 // how much work of the token had ended when beside was found
}

// Budget begins a piece of work of a token that uses so many bytes. The token has a quota
// of disk space.
func (l *Limiter) Budget(g Grant, used int64) *Budget {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Budget{l: l, id: g.ID, most: g.Quota.Disk, beside: used, ended: l.of(g.ID).ended}
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

// IsStale reports whether other work of the token has ended since it was found what the
// token uses: what that work made is recorded now. Renew is told what the token uses then.
func (b *Budget) IsStale() bool {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	return b.ended != b.l.of(b.id).ended
}

// Renew sets what the token uses. Work that ends from now on makes the budget stale again.
func (b *Budget) Renew(find func() (int64, error)) error {
	b.l.mu.Lock()
	ended := b.l.of(b.id).ended
	b.l.mu.Unlock()
	used, err := find()
	if err != nil {
		return err
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.beside, b.ended = used, ended
	return nil
}

// Close ends the work. What it has made counts where it is recorded.
func (b *Budget) Close() {
	_ = b.Use(0)
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.of(b.id).ended++
}
