package receipt

import (
	"reflect"
	"strings"
	"testing"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	head := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		spoil func(*Journal)
		bad   bool
	}{
		"sound":            {spoil: func(*Journal) {}},
		"no records":       {func(j *Journal) { j.Records = 0 }, true},
		"no file":          {func(j *Journal) { j.Segment = 0 }, true},
		"oldest is newer":  {func(j *Journal) { j.Oldest = 4 }, true},
		"no chain":         {func(j *Journal) { j.ChainHead = "ab" }, true},
		"an odd id":        {func(j *Journal) { j.JournalID = "x" }, true},
		"about a cell":     {func(j *Journal) { j.CellID, j.Cell = "cell_1", "demo" }, true},
		"of another place": {func(j *Journal) { j.Seq = 0 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := story(t)
			j := &Journal{JournalID: "journal_1", Segment: 3, Oldest: 2, Records: 7, ChainHead: head}
			l.place(j, "", "")
			c.spoil(j)
			_, err := newStatement(j)
			if c.bad {
				if err == nil {
					t.Error("it is not refused")
				}
				return
			}
			l.sign(j)
			chain := NewChain(trusted(1))
			var s Statement
			for _, raw := range l.raw {
				var problems []Problem
				if s, problems = chain.Next(raw); len(problems) > 0 {
					t.Error(problems)
				}
			}
			if !reflect.DeepEqual(s.Predicate, Predicate(j)) {
				t.Errorf("%+v", s.Predicate)
			}
			if s.Subject[0] != (Subject{Name: "requests-3", Digest: Digest{SHA256: head}}) {
				t.Errorf("%+v", s.Subject)
			}
		})
	}
}
