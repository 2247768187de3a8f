package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func (s *Site) addOperator() {
	s.get("/policy", (*request).explainPage)
	s.get("/doctor", (*request).doctorPage)
	s.get("/receipts", (*request).receiptsPage)
	s.get("/tokens", (*request).tokensPage)
}

// explainBody is the page that explains a policy.
type explainBody struct {
	Cells                            []string
	Cell, Path, Host, Syscall        string
	Method, URLPath, Binary, Missing string
	Answer                           *policy.Explanation
}

// explainPage says what the policy of a cell decides about one thing.
func (q *request) explainPage() error {
	v := q.URL.Query()
	body := explainBody{
		Cell: v.Get("cell"), Path: v.Get("path"), Host: v.Get("host"), Syscall: v.Get("syscall"), Method: v.Get("method"), URLPath: v.Get("url_path"), Binary: v.Get("binary"),
	}
	list, err := q.visibleCells(q.Context())
	if err != nil {
		return err
	}
	for _, c := range list {
		body.Cells = append(body.Cells, c.Cell)
	}
	if body.Cell != "" {
		if _, err := q.visible(body.Cell); err != nil {
			return err
		}
		question, err := body.question()
		if err == nil {
			body.Answer, err = q.engine.ExplainPolicy(q.Context(), engine.PolicyRef{Cell: body.Cell}, question)
		}
		if err != nil {
			body.Missing = q.problem(err)
		}
	}
	return q.show("policy", frame{Title: "Policy", Nav: "policy", Body: body})
}

// question returns what the form asks about.
func (b explainBody) question() (engine.PolicyQuestion, error) {
	question := engine.PolicyQuestion{Path: b.Path, Syscall: b.Syscall}
	given := slices.DeleteFunc([]string{b.Path, b.Syscall, b.Host}, func(s string) bool { return s == "" })
	if len(given) != 1 {
		return question, api.Usagef("", "fill in one of path, host and system call")
	}
	if b.Host == "" {
		return question, nil
	}
	host, port, err := policy.SplitHost(b.Host)
	if err != nil {
		return question, api.Usagef("", "write the host as HOST:PORT")
	}
	question.Request = &policy.Request{Host: host, Port: port, Binary: b.Binary, Method: b.Method}
	question.Request.Path, question.RawQuery, _ = strings.Cut(b.URLPath, "?")
	return question, nil
}

// policyBody is the page of a cell's policy.
type policyBody struct {
	Cell     *api.StatusResult
	Policy   *api.PolicyResult // nil if it cannot be read
	Missing  string            // why
	Text     string
	MayApply bool
}

func (q *request) cellPolicy() error {
	name, err := q.cell()
	if err != nil {
		return err
	}
	body := policyBody{MayApply: q.may(op.SetPolicy)}
	if body.Cell, err = q.engine.Status(q.Context(), name); err != nil {
		return err
	}
	if body.Policy, err = q.engine.Policy(q.Context(), name); err != nil {
		body.Missing = q.problem(err)
	} else {
		body.Text = string(body.Policy.Text)
	}
	return q.show("cellpolicy", frame{Title: "Policy of " + name, Nav: "policy", Body: body})
}

// runPolicyBody is the page of the policy that a run began with.
type runPolicyBody struct {
	Run    *api.RunInfo
	Policy *api.PolicyResult
	Lines  []string
}

func (q *request) runPolicy() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	body := runPolicyBody{Run: info}
	if body.Policy, err = q.engine.RunPolicy(q.Context(), info.RunID); err != nil {
		return err
	}
	body.Lines = strings.Split(strings.TrimSuffix(string(body.Policy.Text), "\n"), "\n")
	return q.show("runpolicy", frame{Title: "Policy of a run", Nav: "cells", Body: body})
}

// setPolicy gives a cell another policy.
func (q *request) setPolicy() error {
	name, err := q.cell()
	if err == nil {
		err = q.need(op.SetPolicy)
	}
	if err != nil {
		return err
	}
	engine, err := q.acting()
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(q.PostForm.Get("policy"), "\r\n", "\n")
	if _, err := engine.ApplyPolicy(q.Context(), name, api.PolicyFile{Name: "the form", Text: []byte(text)}, nil); err != nil {
		return err
	}
	return q.goTo(path("cells", name, "policy") + "?done=policy")
}

func (q *request) doctorPage() error {
	if err := q.need(op.Doctor); err != nil {
		return err
	}
	return q.show("doctor", frame{Title: "Doctor", Nav: "doctor", Body: struct{ Checks []driver.Check }{q.engine.Doctor(q.Context())}})
}

func (q *request) tokensPage() error {
	if err := q.need(op.ListTokens); err != nil {
		return err
	}
	list, err := q.engine.TokenList(q.Context())
	if err != nil {
		return err
	}
	return q.show("tokens", frame{Title: "Tokens", Nav: "tokens", Body: struct{ Tokens []api.TokenInfo }{list}})
}

// receiptsBody is the list of receipts, the newest first.
type receiptsBody struct {
	Runs   []api.RunInfo
	Before int64
	Later  bool
	Search string
	Cell   string
}

func (q *request) receiptsPage() error {
	v := q.URL.Query()
	body := receiptsBody{Search: strings.TrimSpace(v.Get("q")), Cell: v.Get("cell")}
	isRun, isReceipt := strings.HasPrefix(body.Search, "run_"), strings.HasPrefix(body.Search, "rcpt_")
	switch {
	case (isRun || isReceipt) && q.hasCell(body.Search): // the names of cells may begin so
	case isReceipt:
		return q.findReceipt(body.Search)
	case isRun:
		return q.goTo(path("runs", body.Search, "receipt"))
	}
	if body.Search != "" && body.Cell == "" {
		body.Cell = body.Search
	}
	if body.Cell != "" {
		if _, err := q.visible(body.Cell); err != nil {
			return err
		}
	}
	before, _ := strconv.ParseInt(v.Get("before"), 10, 64) // anything else is the newest
	body.Later = before > 0
	runs, next, err := q.engine.RecentRuns(q.Context(), body.Cell, max(before, 0), 2*runsOnPage)
	if err != nil {
		return err
	}
	body.Before = next
	body.Runs = slices.DeleteFunc(runs, func(r api.RunInfo) bool { return !q.visit.Sees(r.Cell) || r.ReceiptID == "" })
	return q.show("receipts", frame{Title: "Receipts", Nav: "receipts", Body: body})
}

// hasCell reports whether there is a cell of this name that the visitor may know of.
func (q *request) hasCell(name string) bool {
	if !q.visit.Sees(name) {
		return false
	}
	_, _, err := q.engine.RecentRuns(q.Context(), name, 0, 1)
	return err == nil
}

// findReceipt goes to the page of a receipt.
func (q *request) findReceipt(id string) error {
	doc, err := q.engine.Receipt(q.Context(), id, "", false)
	if err == nil && !q.visit.Sees(doc.Info.Cell) {
		err = api.Missing("receipt", id, "")
	}
	if err != nil {
		return err
	}
	return q.goTo(path("runs", doc.Info.RunID, "receipt"))
}

// receiptBody is the page of one receipt.
type receiptBody struct {
	Run    *api.RunInfo
	Result *api.ReceiptVerifyResult
	JSON   []string
}

// receiptPage shows what a receipt says, whose signature holds, and verifies on request
// everything that it binds: the files of a state are read for it. If the signature does
// not hold, the page names everything that does not.
func (q *request) receiptPage() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	if info.ReceiptID == "" {
		return api.Missing("receipt", info.RunID, "the run has not ended")
	}
	body := receiptBody{Run: info}
	doc, damage := q.engine.Receipt(q.Context(), info.ReceiptID, "", false)
	if damage == nil {
		body.JSON = strings.Split(string(doc.JSON), "\n")
	}
	if damage != nil || q.URL.Query().Get("verify") != "" {
		res, err := q.engine.VerifyReceipts(q.Context(), api.ReceiptVerifyRequest{Receipt: info.ReceiptID})
		switch {
		case res == nil:
			return err
		case res.OK && damage != nil:
			return damage
		}
		body.Result = res
	}
	return q.show("receipt", frame{Title: "Receipt", Nav: "receipts", Body: body})
}

// bundle sends the receipt with everything that its verification needs.
func (q *request) bundle() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	text, err := q.engine.Bundle(q.Context(), info.ReceiptID)
	if err != nil {
		return err
	}
	attach(q.w.Header(), "application/json", info.ReceiptID+".bundle.json")
	_, _ = q.w.Write(text)
	return nil
}
