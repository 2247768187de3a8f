package names

import "testing"

// TestClone: a copy has the same names at the same addresses, and neither table sees
// what is added to the other.
func TestClone(t *testing.T) {
	t.Parallel()
	var table Table
	four, six, err := table.Assign("a.example")
	if err != nil {
		t.Fatal(err)
	}
	other := table.Clone()
	if v4, v6, err := other.Assign("a.example"); err != nil || v4 != four || v6 != six {
		t.Errorf("%v and %v, not %v and %v (%v)", v4, v6, four, six, err)
	}
	added, _, err := other.Assign("b.example")
	if err != nil {
		t.Fatal(err)
	}
	if name, ok := table.Name(added); ok {
		t.Errorf("the table knows %s", name)
	}
}
