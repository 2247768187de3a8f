package daemon_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestEvidence shows, exports and verifies the receipt of a run.
func TestEvidence(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var run api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}})
	d.want(200, nil, "POST", "/v1/cells/demo/accept", nil)
	var receipts api.List[api.ReceiptInfo]
	d.want(200, &receipts, "GET", "/v1/receipts?cell=demo", nil)
	if len(receipts.Items) != 1 || receipts.Items[0].ReceiptID != run.ReceiptID || receipts.Items[0].Decision != "accepted" || receipts.Next != nil {
		t.Errorf("%+v", receipts)
	}
	var statement struct {
		PredicateType string `json:"predicateType"`
	}
	d.want(200, &statement, "GET", "/v1/receipts/"+run.ReceiptID, nil)
	var bundle json.RawMessage
	d.want(200, &bundle, "GET", "/v1/receipts/"+run.ReceiptID+"/bundle", nil)
	for _, req := range []api.ReceiptVerifyRequest{{Receipt: run.ReceiptID}, {Cell: "demo"}, {All: true}, {Bundle: bundle}} {
		var res api.ReceiptVerifyResult
		d.want(200, &res, "POST", "/v1/receipts/verify", req)
		if !res.OK || res.Checked == 0 {
			t.Errorf("%+v", res)
		}
	}
	d.problem(400, api.CodeUsage, "POST", "/v1/receipts/verify", api.ReceiptVerifyRequest{})
	var decisions api.List[api.DecisionInfo]
	d.want(200, &decisions, "GET", "/v1/decisions?cell=demo", nil)
	if len(decisions.Items) != 1 || decisions.Items[0].Result != "accepted" {
		t.Errorf("%+v", decisions)
	}
	d.want(200, nil, "GET", "/v1/graph", nil)
	d.problem(404, api.CodeNotFound, "GET", "/v1/receipts/rcpt_none", nil)
}

// TestLists reads a list page by page.
func TestLists(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	d.want(201, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "try", N: 4})
	var names []string
	for path := "/v1/cells?limit=2"; ; {
		var page api.List[api.CellInfo]
		d.want(200, &page, "GET", path, nil)
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		if page.Next == nil {
			break
		}
		path = "/v1/cells?limit=2&cursor=" + *page.Next
	}
	if len(names) != 5 || names[0] != "demo" || len(slices.Compact(slices.Sorted(slices.Values(names)))) != 5 {
		t.Error(names)
	}
}

// TestPolicies checks, explains and sets policies.
func TestPolicies(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var presets api.List[api.Preset]
	d.want(200, &presets, "GET", "/v1/policies", nil)
	if len(presets.Items) == 0 {
		t.Error("no presets")
	}
	var checked api.PolicyResult
	d.want(200, &checked, "POST", "/v1/policies/validate", api.ValidateBody{Policy: presets.Items[0].Name})
	d.problem(400, api.CodePolicy, "POST", "/v1/policies/validate", api.ValidateBody{Policy: "version: 1\nnonsense: true\n"})
	var x struct{ Allowed bool }
	d.want(200, &x, "POST", "/v1/policies/explain", api.ExplainBody{Cell: "demo", Path: "/srv/secret"})
	if x.Allowed {
		t.Error("/srv/secret is allowed")
	}
	d.problem(400, api.CodeUsage, "POST", "/v1/policies/explain", api.ExplainBody{Cell: "demo"})
	var applied api.PolicyApplied
	d.want(200, &applied, "PUT", "/v1/cells/demo/policy", api.ValidateBody{Policy: "offline"})
	var now api.PolicyResult
	d.want(200, &now, "GET", "/v1/cells/demo/policy", nil)
	if now.PolicyHash != applied.PolicyHash {
		t.Errorf("%+v %+v", now, applied)
	}
	d.want(200, nil, "GET", "/v1/doctor", nil)
	d.want(200, nil, "GET", "/v1/keys", nil)
	d.want(200, nil, "POST", "/v1/gc", api.GCBody{DryRun: true})
}
