package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

func parsed(t *testing.T, names ...string) *policy.Policy {
	t.Helper()
	text := "version: 1\nnetwork_policies: {a: {endpoints: [{host: a.example, port: 443, protocol: rest, access: full}], binaries: [{path: /**}]}}\n"
	if len(names) > 0 {
		text += "credentials:\n"
	}
	for _, n := range names {
		text += fmt.Sprintf("  %s: {endpoints: [{host: a.example, port: 443, path: /**}], expose_as: %s, replace_in_headers: [Authorization]}\n", n, strings.ToUpper(n))
	}
	p, err := policy.Parse("p", []byte(text), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestValuesTravel: the other side gets the same values, and this side drops
// them.
func TestValuesTravel(t *testing.T) {
	t.Parallel()
	p := parsed(t, "one", "two")
	sources := []string{`one=command:["printf","first"]`, `two=command:["printf","second"]`}
	values, err := ReadValues(t.Context(), p, sources, credential.Reader{Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	raw := values.HandOver()
	if len(values.HandOver()["one"]) != 0 {
		t.Error("a value was handed over twice")
	}
	if diff := cmp.Diff(map[string][]byte{"one": []byte("first"), "two": []byte("second")}, raw); diff != "" {
		t.Error(diff)
	}
	taken, err := TakeValues(raw)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(t.Context(), Config{Cell: "c", Policy: p, Values: taken})
	if err != nil {
		t.Fatal(err)
	}
	if got := revealed(g); !slices.Equal(got, []string{"one=first", "two=second"}) {
		t.Error(got)
	}
	if _, err := TakeValues(map[string][]byte{"one": []byte("a\nb")}); !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "a\nb") {
		t.Error(err)
	}
}

func revealed(g *Gateway) (list []string) {
	g.Reveal(func(name, value string) { list = append(list, name+"="+value) })
	slices.Sort(list)
	return list
}

func TestBadSources(t *testing.T) {
	t.Parallel()
	p := parsed(t, "one")
	for _, source := range []string{"one=env:FORKCELL_NO_SUCH_VARIABLE", `one=command:["false"]`, `one=command:["printf",""]`, "bad name=env:X", "two=env:PATH", "two"} {
		if _, err := ReadValues(t.Context(), p, []string{source}, credential.Reader{Env: os.Environ()}); !errors.Is(err, ErrConfig) && !errors.Is(err, ErrCredential) {
			t.Errorf("%s: %v", source, err)
		}
	}
	_, err := New(t.Context(), Config{Cell: "c", Policy: p})
	if !errors.Is(err, ErrCredential) || !strings.Contains(err.Error(), "--credential one=SOURCE") {
		t.Error(err)
	}
}

// TestReloadNeedsService: a gateway that is not served cannot be changed.
func TestReloadNeedsService(t *testing.T) {
	t.Parallel()
	g, err := New(t.Context(), Config{Cell: "c", Policy: parsed(t)})
	if err != nil {
		t.Fatal(err)
	}
	called := false
	err = g.Reload(parsed(t), "h", nil, func() error { called = true; return nil })
	if err == nil || called {
		t.Error(err, called)
	}
	if !g.couldAllow("a.example") || g.couldAllow("b.example") {
		t.Error("names are answered otherwise than the policy says")
	}
}

func TestReadEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadValues(ctx, parsed(t, "one"), []string{`one=command:["printf","x"]`}, credential.Reader{Env: os.Environ()}); err == nil {
		t.Error("a source was read although nobody waits")
	}
}
