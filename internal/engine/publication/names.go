package publication

func (p *publication) title() string {
	if p.req.Title == "" {
		return "Changes of cell " + p.shownCell()
	}
	return p.req.Title
}

// shownCell and shownState name the cell and its state for people and for the log: a
// daemon's, if the work is its.
func (p *publication) shownCell() string {
	if p.received != nil {
		return p.received.Cell
	}
	return p.Record.Name
}

func (p *publication) shownState() string {
	if p.received != nil {
		return p.received.Checkpoint
	}
	return p.accepted.ID
}
