package policy

// Tight returns the policy as it is under the default policy as a ceiling for the keys that
// loosen a control. Addresses that are not public stay in it: they belong to rules, which
// are not to be taken apart, and every user of the policy refuses them.
func (p *Policy) Tight() *Policy {
	out := *p
	out.Process.AllowSyscalls = nil
	if out.Landlock == BestEffort {
		out.Landlock = LandlockDefault
	}
	return &out
}
