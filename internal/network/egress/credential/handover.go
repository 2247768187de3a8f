package credential

// HandOver takes the bytes out of a value, to send them to another process of
// the operator. They must never go to a file, an argument or a variable. The
// value is empty afterwards, and the caller overwrites the bytes once they are
// sent.
func (v *Value) HandOver() []byte {
	b := v.open()
	v.open = func() []byte { return nil }
	return b
}

// Reveal calls f with every value, also replaced ones, so that values can be removed from stored
// text: an upstream may repeat what it was sent. f must not keep the values.
func (s *Set) Reveal(f func(name, value string)) {
	for _, e := range s.entries {
		for _, v := range e.values() {
			f(e.Name, v)
		}
	}
}
