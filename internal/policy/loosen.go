package policy

// Loosens returns what of the policy loosens the controls of a cell, as messages name it.
func (p *Policy) Loosens() (what []string) {
	for _, name := range p.Process.AllowSyscalls {
		what = append(what, "the system call "+name)
	}
	return what
}

// Tight returns the policy without what loosens the controls of a cell, as the default
// policy has nothing of it.
func (p *Policy) Tight() *Policy {
	out := *p
	out.Process.AllowSyscalls = nil
	if out.Landlock == BestEffort {
		out.Landlock = LandlockDefault
	}
	return &out
}
