package inspect

import (
	"net/http"

	"github.com/forkcell/forkcell/internal/policy"
)

// maxMethod bounds the name of a method.
const maxMethod = 256

// jsonRPC reads a JSON-RPC 2.0 request, notification or batch.
func jsonRPC(r Request) (Result, error) {
	if r.Method != http.MethodPost {
		return Result{}, refuse("a JSON-RPC request is a POST, not %s", show(r.Method))
	}
	if err := quietURL(r.RawQuery); err != nil {
		return Result{}, err
	}
	body, v, err := jsonBody(r)
	if err != nil {
		return Result{}, err
	}
	list, err := messages(v)
	if err != nil {
		return Result{}, err
	}
	f := policy.Facts{Protocol: policy.JSONRPC}
	for _, m := range list {
		if m.response {
			return Result{}, refuse("the body is a JSON-RPC response, which only servers send")
		}
		f.Calls = append(f.Calls, policy.Call{Method: m.method})
	}
	return Result{Facts: f, Body: body}, nil
}

// message is one message of JSON-RPC.
type message struct {
	method   string
	params   value
	response bool
}

// messages reads one message, or a batch of them.
func messages(v value) ([]message, error) {
	if v.kind != list {
		v = value{kind: list, items: []value{v}}
	}
	if len(v.items) == 0 || len(v.items) > maxParts {
		return nil, refuse("a batch has 1 to %d messages", maxParts)
	}
	var out []message
	for _, item := range v.items {
		m, err := readMessage(item)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func readMessage(v value) (message, error) {
	var m message
	if err := v.checkKeys("the message", "jsonrpc", "method", "params", "id", "result", "error"); err != nil {
		return m, err
	}
	if version, _ := v.get("jsonrpc"); version.text != "2.0" {
		return m, refuse(`the message has no "jsonrpc": "2.0"`)
	}
	id, hasID := v.get("id")
	if hasID && id.kind != text && id.kind != number && id.kind != null {
		return m, refuse("the id of the message is not a string or a number")
	}
	method, isCall := v.get("method")
	params, hasParams := v.get("params")
	_, isResult := v.get("result")
	fault, isError := v.get("error")
	switch {
	case isCall && (isResult || isError):
		return m, refuse("the message is a call and a response")
	case isCall && (method.kind != text || !visible(method.text) || len(method.text) > maxMethod):
		return m, refuse("the method is not a string of 1 to %d visible ASCII characters", maxMethod)
	case isCall && hasParams && params.kind != object && params.kind != list:
		return m, refuse("params is not an object or a list")
	case isCall:
		return message{method: method.text, params: params}, nil
	case isResult == isError || hasParams || !hasID || isError && fault.kind != object:
		return m, refuse("the message is neither a call nor a response")
	}
	return message{response: true}, nil
}

// quietURL refuses parameters of a URL from which some servers take the message.
func quietURL(raw string) error {
	params, err := parameters(raw, []string{"jsonrpc", "method", "params"})
	if err == nil && len(params) > 0 {
		return refuse("the URL has parameters that some servers take for the message")
	}
	return err
}
