package receipt

import (
	"errors"
	"reflect"
	"testing"
)

func TestRanges(t *testing.T) {
	t.Parallel()
	got := Ranges([]int64{9, 3, 4, 5, 4, 7})
	if want := []Range{{3, 5}, {7, 7}, {9, 9}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	l := &Loss{Statements: got}
	if l.Count() != 5 || !l.Covers(4) || l.Covers(6) || got[0].String() != "3-5" || got[1].String() != "7" {
		t.Errorf("%d places, %v", l.Count(), got)
	}
}

// TestLoss: a loss goes on from the last place that is known, and says which
// places are lost. The log holds but for these.
func TestLoss(t *testing.T) {
	t.Parallel()
	l := story(t)
	n := int64(len(l.raw))
	loss := &Loss{LossID: "loss_1", Statements: []Range{{2, 3}, {n, n}}, Checkpoints: []string{"chk_9"}}
	l.place(loss, "", "")
	l.sign(loss)
	c := NewChain(trusted(1))
	for i, raw := range l.raw {
		if loss.Covers(int64(i + 1)) {
			c.Missing(errors.New("lost"))
			continue
		}
		s, problems := c.Next(raw)
		if len(problems) > 0 {
			t.Errorf("statement %d: %v", i+1, problems)
		}
		if found, ok := s.Predicate.(*Loss); ok && !reflect.DeepEqual(found, loss) {
			t.Errorf("%+v, want %+v", found, loss)
		}
	}
}

func TestLossIsChecked(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Loss){
		"nothing":        func(l *Loss) { l.Statements, l.Runs = nil, nil },
		"itself":         func(l *Loss) { l.Statements = []Range{{1, 99}} },
		"out of order":   func(l *Loss) { l.Statements = []Range{{3, 3}, {1, 1}} },
		"in two pieces":  func(l *Loss) { l.Statements = []Range{{1, 2}, {3, 4}} },
		"backwards":      func(l *Loss) { l.Statements = []Range{{3, 2}} },
		"place 0":        func(l *Loss) { l.Statements = []Range{{0, 2}} },
		"an odd id":      func(l *Loss) { l.Layers = []string{"../x"} },
		"an odd loss id": func(l *Loss) { l.LossID = "lost" },
		"of a cell":      func(l *Loss) { l.CellID, l.Cell = "cell_1", "demo" },
		"less than none": func(l *Loss) { l.More = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := story(t)
			loss := &Loss{LossID: "loss_1", Statements: []Range{{1, 2}}, Runs: []string{"run_1"}}
			l.place(loss, "", "")
			if _, err := l.signer.Sign(loss); err != nil {
				t.Fatal(err)
			}
			spoil(loss)
			if _, err := l.signer.Sign(loss); err == nil {
				t.Error("it is signed")
			}
		})
	}
}
