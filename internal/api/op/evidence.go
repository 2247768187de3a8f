package op

import (
	"github.com/forkcell/forkcell/internal/api"
)

const tagEvidence = "evidence"

// Operations that show and verify what was signed.
var (
	ListDecisions = Verb{
		ID: "listDecisions", Method: "GET", Path: "/v1/decisions", Tag: tagEvidence, Command: "decisions list",
		Summary: "List decisions", Needs: []Scope{ScopeRead},
	}
	ListEvents = Verb{
		ID: "listEvents", Method: "GET", Path: "/v1/events", Tag: tagEvidence,
		Summary: "Events of runs, newest last", Needs: []Scope{ScopeRead}, Kind: KindEvents,
	}
	Graph = Verb{
		ID: "graph", Method: "GET", Path: "/v1/graph", Tag: tagEvidence, Command: "graph",
		Summary: "The lineage of all states", Needs: []Scope{ScopeRead},
	}
	ListReceipts = Verb{
		ID: "listReceipts", Method: "GET", Path: "/v1/receipts", Tag: tagEvidence, Command: "receipt list",
		Summary: "List receipts", Needs: []Scope{ScopeRead},
	}
	VerifyReceipts = Op[api.ReceiptVerifyRequest, api.ReceiptVerifyResult]{
		Verb: Verb{
			ID: "verifyReceipts", Method: "POST", Path: "/v1/receipts/verify", Tag: tagEvidence, Command: "receipt verify {receipt}",
			Summary: "Check signatures, chains and bound hashes", Needs: []Scope{ScopeRead},
		},
	}
	GetReceipt = Verb{
		ID: "getReceipt", Method: "GET", Path: "/v1/receipts/{receipt}", Tag: tagEvidence, Command: "receipt show {receipt}",
		Summary: "Show a receipt and the present decision", Needs: []Scope{ScopeRead},
	}
	GetBundle = Verb{
		ID: "getBundle", Method: "GET", Path: "/v1/receipts/{receipt}/bundle", Tag: tagEvidence, Command: "receipt export {receipt}",
		Summary: "A bundle that can be verified elsewhere", Needs: []Scope{ScopeRead},
	}
)
