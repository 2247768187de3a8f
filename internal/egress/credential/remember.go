package credential

import (
	"slices"

	"github.com/forkcell/forkcell/internal/policy"
)

// Known is the part of a credential that the programs of a cell know: no secret, but with the
// memory of the cell it must be understood again.
type Known struct {
	// Placeholders are all that were given to them, the present one last.
	Placeholders []string `json:"placeholders"`
	// Leads are texts that stand before a placeholder.
	Leads []string `json:"leads,omitempty"`
}

// Known returns what the cell knows of each credential, by name.
func (s *Set) Known() map[string]Known {
	out := map[string]Known{}
	for _, e := range s.entries {
		e.mu.RLock()
		out[e.Name] = Known{Placeholders: append(slices.Clone(e.earlier), e.placeholder), Leads: slices.Clone(e.leads)}
		e.mu.RUnlock()
	}
	return out
}

// Remembered returns a Set that has what a cell knows and no value. It is only of use
// to make branches of it.
func Remembered(known map[string]Known) *Set {
	s := &Set{}
	for name, k := range known {
		last := len(k.Placeholders) - 1
		if last < 0 {
			continue
		}
		s.entries = append(s.entries, &entry{
			Credential: policy.Credential{Name: name}, leads: slices.Clone(k.Leads),
			placeholder: k.Placeholders[last], earlier: slices.Clone(k.Placeholders[:last]),
		})
	}
	return s
}
