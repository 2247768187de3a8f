package login

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzSplice checks that replacing a value changes that value and nothing else.
func FuzzSplice(f *testing.F) {
	for _, seed := range []string{`{"a":"x"}`, `{"a": {"b" : "y\u0041" , "n":1.5}, "l":[{"a":"z"}]}`, ` {"a":true,"b":null,"é":"\n"} `, `{"a.b":"x","a":{"b":"y"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := locate(text)
		if err != nil {
			return
		}
		for place, v := range found {
			same, err := splice(text, map[string]any{place: json.RawMessage(text[v.start:v.end])})
			if err != nil || !json.Valid(same) {
				t.Fatalf("%q at %s: %q, %v", text, place, same, err)
			}
			changed, err := splice(text, map[string]any{place: "new <value>"})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(changed, text[:v.start]) || !bytes.HasSuffix(changed, text[v.end:]) {
				t.Fatalf("%q at %s became %q", text, place, changed)
			}
			again, err := locate(changed)
			if err != nil || again[place].text != "new <value>" || len(again) != len(found) {
				t.Fatalf("%q at %s: %v, %v", changed, place, again, err)
			}
			var before, after any
			if json.Unmarshal(text, &before) != nil || json.Unmarshal(same, &after) != nil || !reflect.DeepEqual(before, after) {
				t.Fatalf("%q became %q", text, same)
			}
		}
	})
}
