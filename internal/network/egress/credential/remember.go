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

// maxKnown is how many placeholders and leads of earlier runs are recalled for each
// credential: the newest ones.
const maxKnown = 64

// Recall adds what an earlier run of the cell told its programs: they may have kept it, as
// an agent does that shows its variables to its service. It must be called before the Set
// is used, and after Shape.
func (s *Set) Recall(known map[string]Known) {
	for _, e := range s.entries {
		k := known[e.Name]
		e.earlier = newest(k.Placeholders)
		if len(e.leads) == 0 {
			e.leads = []string{""} // the last one is current
		}
		for _, lead := range newest(k.Leads) {
			if !slices.Contains(e.leads, lead) {
				e.leads = slices.Insert(e.leads, 0, lead)
			}
		}
	}
}

func newest(list []string) []string { return slices.Clone(list[max(0, len(list)-maxKnown):]) }

// FromKnown returns a Set that has what a cell knows and no value. It is only of use
// to make branches of it.
func FromKnown(known map[string]Known) *Set {
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
