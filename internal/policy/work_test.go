package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBothIsBounded combines policies of the largest size that a file may have. Each is
// refused, or combined, in a time that a request may take.
func TestBothIsBounded(t *testing.T) {
	t.Parallel()
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
	for _, c := range []struct {
		name    string
		a, b    string
		refused bool
	}{
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
	} {
		a, b := parsed(t, c.a), parsed(t, c.b)
		begin := time.Now()
		_, err := Both(a, b)
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
