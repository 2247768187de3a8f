package workspace

import (
	"testing"
)

// FuzzPlaced checks that no areas.json leads out of the generation.
func FuzzPlaced(f *testing.F) {
	f.Add([]byte(`[{"name":"path:/x","host":"/x","target":"/x","system":false,"dir":"area-0","fresh":{"root":"","meta":""}}]`))
	f.Add([]byte(`[{"name":"home","dir":"../x"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parsePlaced(data)
		for _, a := range list {
			if err == nil && (!isAreaDir(a.Dir) || a.Name == AreaHome || a.Name == "") {
				t.Errorf("%+v was accepted", a)
			}
		}
	})
}
