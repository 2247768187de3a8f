package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/answer"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/transfer"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// ReceiptList lists receipts; "" asks for all cells.
func (e *Engine) ReceiptList(ctx context.Context, cell string) ([]api.ReceiptInfo, error) {
	return all(e.client.Receipts.List(ctx, cell))
}

// Receipt returns one receipt, by its id or the latest of a cell.
func (e *Engine) Receipt(ctx context.Context, id, cell string, _ bool) (*api.ReceiptDoc, error) {
	if id == "" {
		list, err := e.ReceiptList(ctx, cell)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, api.NoReceipt(cell)
		}
		id = list[len(list)-1].ReceiptID
	}
	statement, err := asEngineError(e.client.Receipts.Get(ctx, id))
	if err != nil {
		return nil, err
	}
	doc := &api.ReceiptDoc{}
	var text bytes.Buffer
	if err := json.Indent(&text, statement, "", "  "); err != nil {
		return nil, malformed(err)
	}
	doc.JSON = text.Bytes()
	bundle, err := e.bundle(ctx, id)
	if err != nil {
		return nil, err
	}
	doc.Envelope = bundle.Receipt
	if doc.Markdown, err = markdown(bundle.Receipt, statement); err != nil {
		return nil, malformed(err)
	}
	return doc, nil
}

func (e *Engine) bundle(ctx context.Context, id string) (receipt.Bundle, error) {
	data, err := asEngineError(e.client.Receipts.Bundle(ctx, id))
	if err != nil {
		return receipt.Bundle{}, err
	}
	b, err := receipt.ParseBundle(bytes.NewReader(data))
	if err != nil {
		return b, malformed(err)
	}
	return b, nil
}

// markdown returns the page of a receipt. The daemon has checked the signatures.
func markdown(envelope, statement []byte) ([]byte, error) {
	env, err := receipt.ParseEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Decisions []*receipt.Decision `json:"decisions"`
	}
	if err := answer.Decode(statement, &doc); err != nil {
		return nil, err
	}
	run, ok := env.Statement.Predicate.(*receipt.Run)
	if !ok {
		return nil, errNoResult
	}
	var page bytes.Buffer
	err = receipt.Markdown(&page, run, doc.Decisions, nil)
	return page.Bytes(), err
}

// ReceiptExport writes a bundle to a file of this machine, and returns its size.
func (e *Engine) ReceiptExport(ctx context.Context, id, output string) (int64, error) {
	data, err := asEngineError(e.client.Receipts.Bundle(ctx, id))
	if err != nil {
		return 0, err
	}
	data = append(bytes.TrimRight(data, "\n"), '\n')
	if _, err := receipt.ParseBundle(bytes.NewReader(data)); err != nil {
		return 0, malformed(err)
	}
	at, err := e.output(output)
	if err != nil {
		return 0, err
	}
	return transfer.WriteBundle(at, data)
}

// ReceiptVerify has the daemon check its log.
func (e *Engine) ReceiptVerify(ctx context.Context, id, cell string, all bool, keyFile string) (*api.ReceiptVerifyResult, error) {
	return e.verify(ctx, client.VerifyReceipts{Receipt: id, Cell: cell, All: all}, keyFile)
}

// BundleVerify has the daemon check a bundle with the keys that it trusts.
func (e *Engine) BundleVerify(ctx context.Context, file, keyFile string) (*api.ReceiptVerifyResult, error) {
	data, err := e.readFile("--bundle", file, receipt.MaxBundle)
	if err != nil {
		return nil, err
	}
	return e.verify(ctx, client.VerifyReceipts{Bundle: data}, keyFile)
}

func (e *Engine) verify(ctx context.Context, r client.VerifyReceipts, keyFile string) (*api.ReceiptVerifyResult, error) {
	var err error
	if keyFile != "" {
		if r.Key, err = e.readFile("--key", keyFile, 64<<10); err != nil {
			return nil, err
		}
	}
	res, err := asEngineError(e.client.Receipts.Verify(ctx, r))
	if err != nil || res.OK {
		return res, err
	}
	refused := api.Refusef(api.CodeNotVerified, "", "%s found", api.Counted(len(res.Problems), "problem"))
	for _, p := range res.Problems {
		refused.Details = append(refused.Details, p.ID+": "+p.What)
	}
	return res, refused
}

// readFile reads a file that a flag names.
func (e *Engine) readFile(flag, name string, limit int64) ([]byte, error) {
	f, err := os.Open(e.path(name))
	if err != nil {
		return nil, api.Usagef("", "%s %s: %v", flag, quote.Path(name), quote.Cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, api.Usagef("", "%s %s: %v", flag, quote.Path(name), quote.Cause(err))
	}
	if int64(len(data)) > limit {
		return nil, api.Usagef("", "%s %s: it is too large", flag, quote.Path(name))
	}
	return data, nil
}

// Decisions lists decisions, of one cell or run or of all.
func (e *Engine) Decisions(ctx context.Context, cell, run string) ([]api.DecisionInfo, error) {
	return all(e.client.Decisions.List(ctx, cell, run))
}

// Decision finds one decision, by its id or a unique part of it.
func (e *Engine) Decision(ctx context.Context, id string) (*api.DecisionInfo, error) {
	list, err := e.Decisions(ctx, "", "")
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(d api.DecisionInfo) bool { return d.DecisionID != id && !strings.HasPrefix(d.DecisionID, id) })
	switch len(list) {
	case 0:
		return nil, api.Missing("decision", quote.Arg(id), "`forkcell decisions list` shows them")
	case 1:
		return &list[0], nil
	}
	return nil, api.Refusef(api.CodeAmbiguous, "use more characters", "ambiguous id %s", quote.Arg(id))
}

// Key returns the key that signs.
func (e *Engine) Key(ctx context.Context) (*api.KeyInfo, error) {
	return asEngineError(e.client.Key(ctx))
}

// Logs opens the stored output of a run.
func (e *Engine) Logs(ctx context.Context, cell, run string) (stdout, stderr io.ReadCloser, err error) {
	id, _, err := e.runOf(ctx, cell, run)
	if err != nil {
		return nil, nil, err
	}
	if stdout, err = e.openLog(ctx, cell, id, "stdout", false); err != nil {
		return nil, nil, err
	}
	if stderr, err = e.openLog(ctx, cell, id, "stderr", false); err != nil {
		_ = stdout.Close()
	}
	return stdout, stderr, err
}

func (e *Engine) openLog(ctx context.Context, cell, run, stream string, follow bool) (io.ReadCloser, error) {
	params := map[string]string{"stream": stream}
	if follow {
		params["follow"] = "true"
	}
	resp, err := e.send(ctx, http.MethodGet, query(op.GetCellRunLogs.At(cell, run), params), "application/octet-stream", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// runOf finds a run of a cell by its id or a unique part of one, or its last. live
// reports that the cell is live by this run.
func (e *Engine) runOf(ctx context.Context, cell, run string) (id string, live bool, err error) {
	status, err := e.Status(ctx, cell)
	switch {
	case api.KindOf(err) == api.NotFound: // a removed cell has its records
	case err != nil:
		return "", false, err
	case status.Live != nil && strings.HasPrefix(status.Live.RunID, run):
		return status.Live.RunID, true, nil
	case run == "" && status.LastRun != "":
		return status.LastRun, false, nil
	}
	runs, err := all(e.client.Cells.Named(cell).Runs(ctx))
	if err != nil {
		return "", false, err
	}
	runs = slices.DeleteFunc(runs, func(r api.RunInfo) bool { return !strings.HasPrefix(r.RunID, run) })
	switch {
	case len(runs) == 0 && run == "":
		return "", false, api.Missing("run", "cell "+cell+" has none", "`forkcell run "+cell+" -- CMD` makes one")
	case len(runs) == 0:
		return "", false, api.Missing("run", quote.Arg(run), "`forkcell log "+cell+"` shows them")
	case len(runs) > 1 && run != "":
		return "", false, api.Refusef(api.CodeAmbiguous, "use more characters", "ambiguous id %s", quote.Arg(run))
	}
	return runs[len(runs)-1].RunID, false, nil
}

// FollowLogs writes the output of a live cell and, with follow, new output until it is
// stopped. It returns false if the run is not that of a live cell.
func (e *Engine) FollowLogs(ctx context.Context, cell, run string, follow bool, stdout, stderr io.Writer) (bool, error) {
	id, live, err := e.runOf(ctx, cell, run)
	if err != nil || !live {
		return false, err
	}
	ended := make(chan error, 2)
	for stream, w := range map[string]io.Writer{"stdout": stdout, "stderr": stderr} {
		r, err := e.openLog(ctx, cell, id, stream, follow)
		if err != nil {
			return true, err
		}
		go func() {
			_, err := io.Copy(w, r)
			_ = r.Close()
			ended <- err
		}()
	}
	first := <-ended
	if second := <-ended; first == nil {
		first = second
	}
	return true, failure(first)
}
