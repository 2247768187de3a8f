package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// evidenceTools returns the tools that explain and prove what happened.
func evidenceTools() []tool {
	return []tool{
		define(tool{
			op: op.ExplainPolicy, name: "policy_explain", title: "Explain a policy",
			about: "Say what the policy of a cell, or a given policy, decides about one path, host or system call, by which rule and why.",
		}, explainPolicy),
		define(tool{
			op: op.SuggestPolicy.Verb, name: "policy_suggest", title: "Suggest a policy",
			about: "Return a policy that would allow what a run was denied, for a person to review.",
		}, suggestPolicy),
		define(tool{
			op: op.GetReceipt, name: "receipt_show", title: "Show a receipt",
			about: "Return the signed statement about a run, and its present decision.",
		}, showReceipt),
		define(tool{
			op: op.VerifyReceipts.Verb, name: "receipt_verify", title: "Verify receipts",
			about: "Check the signatures, chains and hashes of a receipt, of all receipts of a cell, of all receipts, or of a bundle.",
		}, verifyReceipts),
	}
}

type explainArgs struct {
	api.ExplainBody
}

func (a *explainArgs) fallbackUnlessGiven(cell string) {
	if a.Policy == "" {
		a.Cell = cmp.Or(a.Cell, cell)
	}
}

func explainPolicy(ctx context.Context, c *call, in explainArgs) (*answer, error) {
	doc, raw, err := fetch[struct {
		Allowed bool   `json:"allowed"`
		Reason  string `json:"reason"`
		Rule    string `json:"rule"`
	}](ctx, c, request{method: http.MethodPost, path: path("policies", "explain"), body: in.ExplainBody})
	if err != nil {
		return nil, err
	}
	text := "denied"
	if doc.Allowed {
		text = "allowed"
	}
	for _, more := range []string{doc.Rule, doc.Reason} {
		if more != "" {
			text += ": " + more
		}
	}
	return &answer{raw, text}, nil
}

type suggestArgs struct {
	api.SuggestRequest
}

func (a *suggestArgs) fallback(cell string) { a.Cell = cmp.Or(a.Cell, cell) }

func suggestPolicy(ctx context.Context, c *call, in suggestArgs) (*answer, error) {
	doc, raw, err := carryOut(ctx, c, op.SuggestPolicy, in.SuggestRequest)
	if err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("%s for run %s", api.Counted(len(doc.Added), "addition"), doc.RunID)}
	return &answer{raw, strings.Join(append(lines, doc.Added...), "\n")}, nil
}

type receiptArgs struct {
	Receipt string `json:"receipt" doc:"Id of the receipt."`
}

func showReceipt(ctx context.Context, c *call, in receiptArgs) (*answer, error) {
	_, raw, err := fetch[json.RawMessage](ctx, c, request{method: http.MethodGet, path: path("receipts", in.Receipt)})
	if err != nil {
		return nil, err
	}
	return &answer{raw, string(raw)}, nil
}

type verifyArgs struct {
	api.ReceiptVerifyRequest
}

func (a *verifyArgs) fallbackUnlessGiven(cell string) {
	if a.Receipt == "" && !a.All && len(a.Bundle) == 0 {
		a.Cell = cmp.Or(a.Cell, cell)
	}
}

func verifyReceipts(ctx context.Context, c *call, in verifyArgs) (*answer, error) {
	doc, raw, err := carryOut(ctx, c, op.VerifyReceipts, in.ReceiptVerifyRequest)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("ok: %s checked", api.Counted(doc.Checked, "statement"))
	if !doc.OK {
		text = fmt.Sprintf("not verified: %s", api.Counted(len(doc.Problems), "problem"))
		for _, p := range doc.Problems {
			text += "\n" + p.ID + ": " + p.What
		}
	}
	return &answer{raw, text}, nil
}
