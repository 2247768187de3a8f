package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// queued starts updates that wait for the writer, in order, and returns their errors
// when they have ended. Update i appends the statement i, unless fail[i] is set.
func queued(t *testing.T, s *Store, n int, fail map[int]func() error) []error {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	s.mu.Lock()
	for i := range n {
		before := len(s.group.waiting)
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			errs[i] = s.Update(func(tx *Tx) error {
				_, err := tx.Append(Statement{ID: fmt.Sprintf("st_%d", i), Kind: "cell"}, func(n Next) ([]byte, error) {
					return fmt.Appendf(nil, "%d after %s", i, n.Prev), nil
				})
				if err == nil && fail[i] != nil {
					err = fail[i]()
				}
				return err
			})
		})
		for waiting := before; waiting == before; {
			s.group.mu.Lock()
			waiting = len(s.group.waiting)
			s.group.mu.Unlock()
		}
	}
	s.mu.Unlock()
	all.Wait()
	return errs
}

// TestGroupCommit: updates that waited for the same lock are committed together. One
// that fails leaves nothing, and the others stay, in their order.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := open(t)
	refused := errors.New("refused")
	seen := -1
	errs := queued(t, s, 6, map[int]func() error{
		1: func() error { return refused },
		3: func() error { panic("oh") },
		5: func() error { // the others are not committed yet
			return s.View(func(tx *Tx) error {
				list, err := tx.Statements("")
				seen = len(list)
				return err
			})
		},
	})
	for i, err := range errs {
		switch i {
		case 1:
			if !errors.Is(err, refused) {
				t.Errorf("update 1: %v", err)
			}
		case 3:
			if err == nil || err.Error() != "panic: oh" {
				t.Errorf("update 3: %v", err)
			}
		default:
			if err != nil {
				t.Errorf("update %d: %v", i, err)
			}
		}
	}
	if seen != 0 {
		t.Errorf("%d statements were committed before the last update of the group", seen)
	}
	var list []Statement
	if err := s.View(func(tx *Tx) (err error) {
		list, err = tx.Statements("")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"st_0", "st_2", "st_4", "st_5"}
	if len(list) != len(want) {
		t.Fatalf("%d statements: %v", len(list), list)
	}
	prev := ""
	for i, st := range list {
		text, err := s.ReadStatement(st.Seq)
		if err != nil || st.ID != want[i] || st.Seq != int64(i+1) || string(text) != want[i][3:]+" after "+prev {
			t.Errorf("statement %d: %+v, %q, %v", i+1, st, text, err)
		}
		prev = st.Digest
	}
	if err := appendOne(s, "st_later", nil); err != nil {
		t.Error(err)
	}
}
