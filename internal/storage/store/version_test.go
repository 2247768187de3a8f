package store

import "testing"

// TestVersion: the version of the database changes with each commit, of this process
// and of another one, and not without one.
func TestVersion(t *testing.T) {
	t.Parallel()
	s := open(t)
	other, err := Open(s.Path(), Write)
	if err != nil {
		t.Fatal(err)
	}
	put := func(s *Store, id string) func() error {
		return func() error {
			return s.Update(func(tx *Tx) error { return tx.PutIntent(id, "cell", "test", struct{}{}) })
		}
	}
	steps := []struct {
		name    string
		changes bool
		do      func() error
	}{
		{"a view", false, func() error {
			return s.View(func(tx *Tx) error { _, err := tx.Intents(""); return err })
		}},
		{"an update", true, put(s, "one")},
		{"an update that fails", false, func() error {
			if put(s, "one")() == nil {
				t.Error("the same intent twice")
			}
			return nil
		}},
		{"an update of another process", true, put(other, "two")},
		{"a note", true, func() error {
			return s.Note(func(tx *Tx) error { return tx.DropIntent("one") })
		}},
		{"a note of another process", true, func() error {
			return other.Note(func(tx *Tx) error { return tx.DropIntent("two") })
		}},
	}
	last := s.Version()
	if !last.Known() {
		t.Fatal("the version is not known")
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		now := s.Version()
		if changed := now != last; changed != step.changes {
			t.Errorf("%s: changed %v, want %v", step.name, changed, step.changes)
		}
		last = now
	}
	if err := s.CloseDatabase(); err != nil {
		t.Fatal(err)
	}
	if err := s.OpenDatabase(); err != nil {
		t.Fatal(err)
	}
	if s.Version() == last {
		t.Error("a database that was opened again has the version of the one before")
	}
}
