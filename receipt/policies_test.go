package receipt

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const laterPolicy = "version: 1\n# later\n"

// ruled is a run under three policies: its own, another, and its own again.
func ruled() *Run {
	r := testRun(1)
	own, later := Hash([]byte(testPolicy)), Hash([]byte(laterPolicy))
	r.Policies = []Ruling{{own, 1}, {later, 4}, {own, 9}}
	return r
}

func TestPoliciesRoundTrip(t *testing.T) {
	t.Parallel()
	l, r := newTestLog(t), ruled()
	raw := l.add(r)
	s, err := Verify(raw, trusted(1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, s.Predicate); diff != "" {
		t.Error(diff)
	}
	e, err := ParseEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"policies":[{"policy_hash":"` + r.PolicyHash + `","from_event":1},`; !bytes.Contains(e.Payload, []byte(want)) {
		t.Errorf("%s does not hold %s", e.Payload, want)
	}
}

// Where one policy ruled throughout there is no list: receipts of before the
// field stay what they are, byte for byte.
func TestPoliciesAbsent(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	e, err := ParseEnvelope(l.add(testRun(1)))
	if err != nil || bytes.Contains(e.Payload, []byte(`"policies"`)) {
		t.Errorf("%v, %s", err, e.Payload)
	}
	if page := markdownOf(t, testRun(1)); strings.Contains(page, "Policy from event") {
		t.Error(page)
	}
}

func TestBadPolicies(t *testing.T) {
	t.Parallel()
	own, later := Hash([]byte(testPolicy)), Hash([]byte(laterPolicy))
	for name, list := range map[string][]Ruling{
		"one":                   {{own, 1}},
		"no hash":               {{own, 1}, {"", 4}},
		"hash in capitals":      {{own, 1}, {strings.ToUpper(later), 4}},
		"hash with a prefix":    {{own, 1}, {"sha256:" + later, 4}},
		"begins with another":   {{later, 1}, {own, 4}},
		"begins later":          {{own, 2}, {later, 4}},
		"begins before":         {{own, 0}, {later, 4}},
		"the same event twice":  {{own, 1}, {later, 4}, {own, 4}},
		"backwards":             {{own, 1}, {later, 4}, {own, 3}},
		"second from the first": {{own, 1}, {later, 1}},
		"negative":              {{own, 1}, {later, -4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, r := newTestLog(t), testRun(1)
			r.Policies = list
			l.place(r, "cell_1", "demo")
			if _, err := l.signer.Sign(r); err == nil || !strings.Contains(err.Error(), "policies") {
				t.Errorf("signed, or refused for another reason: %v", err)
			}
		})
	}
	l, r := newTestLog(t), ruled()
	r.PolicyHash = ""
	l.place(r, "cell_1", "demo")
	if _, err := l.signer.Sign(r); err == nil {
		t.Error("a list was signed for a run without a policy")
	}
}

// Payloads that a home never writes are not read, whoever signed them.
func TestStrictPolicies(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	raw := l.add(ruled())
	e, err := ParseEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	payload := string(e.Payload)
	for name, forged := range map[string]string{
		"unknown field": strings.Replace(payload, `"from_event":4`, `"from_event":4,"until":5`, 1),
		"null":          strings.Replace(payload, `"from_event":4`, `"from_event":null`, 1),
		"text":          strings.Replace(payload, `"from_event":4`, `"from_event":"4"`, 1),
		"order":         strings.Replace(payload, `"from_event":4`, `"from_event":40`, 1),
		"an empty list": payload[:strings.Index(payload, `"policies":[`)] + `"policies":[]` + payload[strings.Index(payload, `"from_event":9}]`)+len(`"from_event":9}]`):],
	} {
		if forged == payload {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := parseStatement([]byte(forged)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestPoliciesInMarkdown(t *testing.T) {
	t.Parallel()
	r := ruled()
	page := markdownOf(t, r)
	want := []string{
		"| Policy | `" + r.PolicyHash + "` |",
		"| Policy from event `4` | `" + r.Policies[1].PolicyHash + "` |",
		"| Policy from event `9` | `" + r.PolicyHash + "` |",
	}
	if diff := cmp.Diff(want, lines(page, "| Policy")); diff != "" {
		t.Error(diff)
	}
}

func TestPoliciesInBundle(t *testing.T) {
	t.Parallel()
	own, later := []byte(testPolicy), []byte(laterPolicy)
	l := newTestLog(t)
	raw := l.add(ruled())
	for _, c := range []struct {
		name        string
		included    map[string][]byte
		policy, two State
		holds       bool
	}{
		{"both", map[string][]byte{Hash(own): own, Hash(later): later}, Verified, Verified, true},
		{"one", map[string][]byte{Hash(own): own}, Verified, NotIncluded, true},
		{"none", nil, NotIncluded, NotIncluded, true},
		{"altered", map[string][]byte{Hash(own): own, Hash(later): own}, Verified, Mismatch, false},
	} {
		report, err := (Bundle{Receipt: raw, Included: c.included}).Verify(trusted(1))
		if (err == nil) != c.holds {
			t.Errorf("%s: %v", c.name, err)
		}
		got := states(report)
		if _, thrice := got["policies[2]"]; got["policy_hash"] != c.policy || got["policies[1]"] != c.two || thrice {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
