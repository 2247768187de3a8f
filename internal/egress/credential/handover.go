package credential

// HandOver takes the bytes out of a value, for another process of the operator's
// that will hold it: never for a file, an argument or a variable. The value is
// empty from then on, and the caller overwrites the bytes once they are sent.
func (v *Value) HandOver() []byte {
	b := v.open()
	v.open = func() []byte { return nil }
	return b
}

// Reveal calls f with every value, for whoever takes them out of what is stored:
// an upstream may repeat what it was sent. f must not keep them longer than that.
func (s *Set) Reveal(f func(name, value string)) {
	for _, e := range s.entries {
		f(e.Name, e.value.text())
	}
}
