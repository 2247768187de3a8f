package injection

import "testing"

// FuzzLoad checks that no text makes the reader panic, that what loads has only
// known names and absolute sources, and that removing an entry leaves a valid policy
// without it.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"version = 1\n", "version = 1\n[credentials]\na = \"x\" # c\n[credentials.b]\nsource = \"env:X\"\nproviders = [\"p\"]\n",
		"version = 1\n[[copies]]\nsource = \"x\"\ntarget = \"~/y\"\nclassification = \"secret\"\n[network]\nallow_endpoints = [\"a.b:1\"]\n",
		"version = 1\n[ssh]\nidentities = [\"k\"]\n[documents]\ncommon = 'd'\n",
	} {
		f.Add([]byte(seed))
	}
	names := Vocabulary{Agents: []string{"p"}, Keys: map[string][]string{"a": {"p"}, "b": {"p"}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		load := func(text []byte) (*Policy, error) {
			return Loader{Names: names, Home: "/h"}.load("/d/p.toml", func(name string) ([]byte, error) {
				if name != "/d/p.toml" {
					return []byte("version = 1\n"), nil
				}
				return text, nil
			})
		}
		p, err := load(text)
		if err != nil {
			return
		}
		for key, c := range p.Credentials {
			if names.Keys[key] == nil || c.Source == "" == (c.Resolver == "") {
				t.Fatalf("credential %+v", c)
			}
			less, err := removeEntry(text, key)
			if err != nil {
				t.Fatal(err)
			}
			if q, err := load(less); err == nil && len(q.Credentials) != len(p.Credentials)-1 {
				t.Fatalf("removing %s left %+v", key, q.Credentials)
			}
		}
	})
}
