package policy

// Difference is a key with two values. The value of an absent key is "".
type Difference struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Diff returns the differences between two policies, key by key: in the order
// of a's canonical text, then the keys that only b has.
func Diff(a, b *Policy) []Difference {
	var out []Difference
	diff(&out, "", a.tree(), b.tree())
	return out
}

func diff(out *[]Difference, path string, a, b value) {
	switch {
	case a.kind == mapping && b.kind == mapping:
		left, right := a.fields(), b.fields()
		for _, name := range names(a, b, left) {
			x, inA := left[name]
			y, inB := right[name]
			switch at := join(path, name); {
			case inA && inB:
				diff(out, at, x, y)
			case inA:
				leaves(x, at, func(p, v string) { *out = append(*out, Difference{p, v, ""}) })
			default:
				leaves(y, at, func(p, v string) { *out = append(*out, Difference{p, "", v}) })
			}
		}
	case a.kind == sequence && b.kind == sequence && !(a.flat() && b.flat()):
		for i := range max(len(a.list), len(b.list)) {
			switch at := index(path, i); {
			case i < len(a.list) && i < len(b.list):
				diff(out, at, a.list[i], b.list[i])
			case i < len(a.list):
				leaves(a.list[i], at, func(p, v string) { *out = append(*out, Difference{p, v, ""}) })
			default:
				leaves(b.list[i], at, func(p, v string) { *out = append(*out, Difference{p, "", v}) })
			}
		}
	case a.kind == b.kind && a.inline() == b.inline():
	case a.kind == b.kind:
		*out = append(*out, Difference{path, a.inline(), b.inline()})
	default:
		leaves(a, path, func(p, v string) { *out = append(*out, Difference{p, v, ""}) })
		leaves(b, path, func(p, v string) { *out = append(*out, Difference{p, "", v}) })
	}
}

// names returns the keys of two mappings: those of a in its order, then those
// that only b has.
func names(a, b value, left map[string]value) []string {
	var out []string
	for _, f := range a.keys {
		out = append(out, f.name)
	}
	for _, f := range b.keys {
		if _, both := left[f.name]; !both {
			out = append(out, f.name)
		}
	}
	return out
}

func (v value) fields() map[string]value {
	out := make(map[string]value, len(v.keys))
	for _, f := range v.keys {
		out[f.name] = f.val
	}
	return out
}

// leaves calls f for every value that is written on one line.
func leaves(v value, path string, f func(path, text string)) {
	if v.flat() {
		f(path, v.inline())
		return
	}
	for _, k := range v.keys {
		leaves(k.val, join(path, k.name), f)
	}
	for i, item := range v.list {
		leaves(item, index(path, i), f)
	}
}
