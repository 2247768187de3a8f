package inspect

import (
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/text/quote"
)

const toolsCall = "tools/call"

// modelContext reads a request of MCP's streamable HTTP transport: a POST with
// messages, a GET that opens the stream of events, a DELETE that ends a session.
func modelContext(r Request) (Result, error) {
	f := policy.Facts{Protocol: policy.ModelContext}
	if err := quietURL(r.RawQuery); err != nil {
		return Result{}, err
	}
	switch r.Method {
	case http.MethodPost:
		return modelContextPost(r)
	case http.MethodGet:
		accept := strings.Join(r.Header.Values("Accept"), ",")
		if !strings.Contains(strings.ToLower(accept), "text/event-stream") {
			return Result{}, refuse("an MCP request by GET asks for text/event-stream")
		}
		f.Upkeep = []string{"event stream"}
	case http.MethodDelete:
		session, err := single(r.Header, "Mcp-Session-Id")
		if err != nil {
			return Result{}, err
		}
		if session == "" {
			return Result{}, refuse("an MCP request by DELETE names a session")
		}
		f.Upkeep = []string{"end of session"}
	default:
		return Result{}, refuse("an MCP request is a POST, a GET or a DELETE, not %s", show(r.Method))
	}
	if err := noBody(r); err != nil {
		return Result{}, err
	}
	return Result{Facts: f}, nil
}

func modelContextPost(r Request) (Result, error) {
	body, v, err := jsonBody(r)
	if err != nil {
		return Result{}, err
	}
	list, err := messages(v)
	if err != nil {
		return Result{}, err
	}
	f := policy.Facts{Protocol: policy.ModelContext}
	for _, m := range list {
		if m.response {
			f.Upkeep = append(f.Upkeep, "response")
			continue
		}
		call := policy.Call{Method: m.method}
		if name := lookalike(m.method, []string{toolsCall}); name != "" {
			if name != m.method {
				return Result{}, refuse("the method %s is one that some servers take for %s", show(m.method), toolsCall)
			}
			if call.Tool, err = tool(m.params); err != nil {
				return Result{}, err
			}
		}
		f.Calls = append(f.Calls, call)
	}
	if err := checkMirrored(r.Header, f); err != nil {
		return Result{}, err
	}
	return Result{Facts: f, Body: body}, nil
}

func tool(params value) (string, error) {
	if err := params.checkSpellings("params", "name", "arguments"); err != nil {
		return "", err
	}
	name, _ := params.get("name")
	s := name.text
	if name.kind != text || s == "" || len(s) > maxMethod || !quote.Visible(s) || strings.TrimSpace(s) != s {
		return "", refuse("the name of the tool is not a string of 1 to %d visible bytes", maxMethod)
	}
	return s, nil
}

// checkMirrored checks the headers that repeat parts of a message, because some
// servers and gateways use them instead.
func checkMirrored(h http.Header, f policy.Facts) error {
	method, err := single(h, "Mcp-Method")
	if err != nil {
		return err
	}
	name, err := single(h, "Mcp-Name")
	if err != nil {
		return err
	}
	if method == "" && name == "" {
		return nil
	}
	if len(f.Calls) != 1 || len(f.Upkeep) > 0 {
		return refuse("the headers Mcp-Method and Mcp-Name are for a single call")
	}
	call := f.Calls[0]
	if method != "" && method != call.Method || name != "" && call.Method == toolsCall && name != call.Tool {
		return refuse("the headers Mcp-Method and Mcp-Name do not match the body")
	}
	return nil
}
