package network

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/policy"
)

const savedPolicy = `version: 1
network_policies:
  web:
    endpoints: [{ host: a.example, port: 443 }]
    binaries: [{ path: /** }]
credentials:
  KEY: { endpoints: [{ host: a.example, port: 443 }], expose_as: KEY, replace_in_headers: [Authorization] }
`

// TestSaved: a gateway that was saved has the authority, the addresses and the
// placeholders, and no value of a credential.
func TestSaved(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p.yaml", []byte(savedPolicy), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const secret = "the-value-of-the-key"
	values, err := TakeValues(map[string][]byte{"KEY": []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(t.Context(), Config{Cell: "demo", Policy: p, Values: values})
	if err != nil {
		t.Fatal(err)
	}
	v4, _, err := g.table.Assign("a.example")
	if err != nil {
		t.Fatal(err)
	}
	data, err := g.Save()
	if err != nil || bytes.Contains(data, []byte(secret)) {
		t.Fatalf("%v: %s", err, data)
	}
	loaded, err := Load(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(loaded.ca.PEM(), g.ca.PEM()) {
		t.Error("another authority")
	}
	if again, _, err := loaded.table.Assign("a.example"); err != nil || again != v4 {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := New(t.Context(), Config{Cell: "child", Policy: p, Source: loaded}); err == nil || !strings.Contains(err.Error(), "KEY") {
		t.Errorf("without a value: %v", err)
	}
	if values, err = TakeValues(map[string][]byte{"KEY": []byte("another")}); err != nil {
		t.Fatal(err)
	}
	child, err := New(t.Context(), Config{Cell: "child", Policy: p, Source: loaded, Values: values})
	if err != nil {
		t.Fatal(err)
	}
	before, now := g.gen.Credentials.Known()["KEY"].Placeholders, child.gen.Credentials.Known()["KEY"].Placeholders
	if len(before) != 1 || len(now) != 2 || now[0] != before[0] || now[1] == before[0] {
		t.Errorf("placeholders %v, %v", before, now)
	}
	for _, bad := range []string{"", "{}", strings.Replace(string(data), `"key":"`, `"key":"x`, 1)} {
		if _, err := Load([]byte(bad)); err == nil {
			t.Errorf("%.30q was accepted", bad)
		}
	}
}
