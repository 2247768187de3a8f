package event

import (
	"slices"
	"testing"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, list := range [][]Kind{nil, {{AppLifecycle, ActionAllowed}}, {{AppLifecycle, ActionAllowed}, {NetworkActivity, ActionDenied}}} {
		got, err := ParseKinds(FormatKinds(list))
		if err != nil || !slices.Equal(got, list) {
			t.Errorf("%v: %v, %v", list, got, err)
		}
	}
	for _, text := range []string{"6002", "6002:", "x:allowed", "6002:maybe", "6002:allowed,4001:denied"} {
		if got, err := ParseKinds(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
