package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// largePair are two policies of the largest size that a file may have.
type largePair struct {
	name    string
	a, b    string
	refused bool
}

func largePairs() []largePair {
	list := func(n int, item func(i int) string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = item(i)
		}
		return strings.Join(items, ", ")
	}
	network := func(endpoints, binaries string) string {
		return "network_policies:\n  x:\n    endpoints: [" + endpoints + "]\n    binaries: [" + binaries + "]\n"
	}
	all := `{path: "/**"}`
	rule := func(i int) string { return fmt.Sprintf(`{allow: {method: GET, path: "/%d/**"}}`, i) }
	other := func(i int) string { return fmt.Sprintf(`{allow: {method: GET, path: "/**/%d"}}`, i) }
	return []largePair{
		{
			"rules of one endpoint", network("{host: a.example, port: 443, protocol: rest, rules: ["+list(1000, rule)+"]}", all),
			network("{host: a.example, port: 443, protocol: rest, rules: ["+list(1000, other)+"]}", all), true,
		},
		{
			"rules of many endpoints", network(list(30, func(i int) string {
				return fmt.Sprintf("{host: a.example, port: 443, path: \"/%d/**\", protocol: rest, rules: [%s]}", i, list(700, rule))
			}), all), network("{host: a.example, port: 443, protocol: rest, rules: ["+list(1000, rule)+"]}", all), true,
		},
		{
			"fields of queries", network("{host: a.example, port: 443, protocol: graphql, rules: ["+list(80, func(i int) string {
				return "{allow: {operation_type: query, fields: [" + list(1000, func(j int) string { return fmt.Sprintf("f%d", i*1000+j) }) + "]}}"
			})+"]}", all), network("{host: a.example, port: 443, protocol: graphql, rules: ["+list(80, func(i int) string {
				return "{allow: {operation_type: query, fields: [" + list(1000, func(j int) string { return fmt.Sprintf("g%d", i*1000+j) }) + "]}}"
			})+"]}", all), true,
		},
		{
			"binaries", network(list(1000, func(i int) string {
				return fmt.Sprintf("{host: h%d.example, port: 443, protocol: rest, access: read-only}", i)
			}), list(1000, func(i int) string { return fmt.Sprintf(`{path: "/usr/bin/tool-%d"}`, i) })),
			network(list(1000, func(i int) string {
				return fmt.Sprintf("{host: h%d.example, port: 443, protocol: rest, access: full}", i)
			}), list(1000, func(i int) string { return fmt.Sprintf(`{path: "/usr/bin/tool-%d"}`, i) })), true,
		},
		{
			"long paths", network("{host: a.example, port: 443, protocol: rest, rules: ["+list(240, func(i int) string {
				return fmt.Sprintf(`{allow: {method: GET, path: "/%d%s"}}`, i, strings.Repeat("/"+strings.Repeat("a*", 30), 60))
			})+"]}", all), network("{host: a.example, port: 443, protocol: rest, rules: ["+list(240, func(i int) string {
				return fmt.Sprintf(`{allow: {method: GET, path: "/*%s%d"}}`, strings.Repeat("/"+strings.Repeat("*a", 30), 60), i)
			})+"]}", all), true,
		},
		{
			"hosts of two large lists", network(list(1000, func(i int) string {
				return fmt.Sprintf("{host: h%d.example, port: 443, protocol: rest, access: full}", i)
			}), all),
			network(list(1000, func(i int) string {
				return fmt.Sprintf("{host: h%d.example, port: 443, protocol: rest, access: read-only}", i)
			}), all), false,
		},
		{
			"rules of the size that people write", network("{host: a.example, port: 443, protocol: rest, rules: ["+list(200, rule)+"]}", all),
			network("{host: a.example, port: 443, protocol: rest, rules: ["+list(200, rule)+"]}", all), false,
		},
	}
}

// TestBothIsBounded combines policies of the largest size that a file may have. Each is
// refused, or combined, in a time that a request may take.
func TestBothIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range largePairs() {
		a, b := parsed(t, c.a), parsed(t, c.b)
		begin := time.Now()
		_, err := Both(t.Context(), a, b)
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: %s", c.name, took)
		} else {
			t.Logf("%s: %s, %v", c.name, took, err)
		}
		if errors.Is(err, ErrBoth) != c.refused || err != nil && !c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// leaving is a context that ends when it has been looked at so many times.
type leaving struct {
	context.Context
	looks, ended int
	at           time.Time
}

func (l *leaving) Err() error {
	if l.looks--; l.looks > 0 {
		return nil
	}
	if l.ended++; l.ended == 1 {
		l.at = time.Now()
	}
	return context.Canceled
}

// TestBothEnds: when the request has ended, nothing more is combined. At no time there
// is much work between two looks at the request.
func TestBothEnds(t *testing.T) {
	t.Parallel()
	ended := 0
	for _, c := range largePairs() {
		a, b := parsed(t, c.a), parsed(t, c.b)
		for _, looks := range []int{1, 4} {
			ctx := &leaving{Context: t.Context(), looks: looks}
			_, err := Both(ctx, a, b)
			if ctx.ended == 0 {
				continue // it was done before
			}
			if took := time.Since(ctx.at); !errors.Is(err, context.Canceled) || ctx.ended != 1 || took > time.Second {
				t.Errorf("%s: after %d looks: %v, %d looks more, %s", c.name, looks, err, ctx.ended-1, took)
			}
			ended++
		}
	}
	if ended < 10 {
		t.Errorf("only %d combinations were under way", ended)
	}
	wide := parsed(t, largePairs()[1].a)
	if _, err := Within(&leaving{Context: t.Context(), looks: 1}, wide, Default()); !errors.Is(err, context.Canceled) {
		t.Errorf("it is within, or not: %v", err)
	}
}
