package capture

// Load sets up interface and rules, with the message bytes changed.
func Load(change func(string) string) error {
	if _, err := configure(); err != nil {
		return err
	}
	p := rules(true)
	p.bytes = change(p.bytes)
	return filter(p)
}
