package mcp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
)

// scheme begins the URI of every resource. What follows is a path of the API below
// /v1.
const scheme = "forkcell://"

const jsonType = "application/json"

// addResources adds what can be read by URI.
func addResources(s *sdk.Server, session Session) {
	read := func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return readResource(ctx, session, req)
	}
	for _, r := range []sdk.Resource{
		{URI: scheme + "cells", Name: "cells", Title: "Cells", Description: "The cells, with their states and last runs."},
		{URI: scheme + "policies", Name: "policies", Title: "Presets", Description: "The policies that come with the program."},
	} {
		r.MIMEType = jsonType
		s.AddResource(&r, read)
	}
	for _, t := range []sdk.ResourceTemplate{
		{URITemplate: scheme + "receipts/{receipt}", Name: "receipt", Title: "Receipt", Description: "The signed statement about a run, and its present decision."},
		{URITemplate: scheme + "runs/{run}", Name: "run", Title: "Run", Description: "A run that is running or has ended."},
		{URITemplate: scheme + "cells/{cell}", Name: "cell", Title: "Cell", Description: "Everything about one cell."},
		{URITemplate: scheme + "cells/{cell}/diff", Name: "diff", Title: "Diff", Description: "The undecided work of a cell, else what its last run changed, or a live cell since its start."},
		{URITemplate: scheme + "cells/{cell}/runs/{run}/diff", Name: "run diff", Title: "Diff of a run", Description: "What a run changed."},
		{URITemplate: scheme + "cells/{cell}/policy", Name: "policy", Title: "Policy", Description: "The policy of a cell."},
	} {
		t.MIMEType = jsonType
		s.AddResourceTemplate(&t, read)
	}
	s.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: scheme + "runs/{run}/logs/{stream}", Name: "logs", Title: "Output of a run", MIMEType: "text/plain",
		Description: "What a run wrote to stdout or stderr.",
	}, read)
}

// resourceRequest returns the request for a resource.
func resourceRequest(parts []string) request {
	r := request{method: http.MethodGet, path: path(parts...)}
	if len(parts) == 5 && parts[2] == "runs" && parts[4] == "diff" {
		r.path, r.query = path(parts[0], parts[1], "diff"), url.Values{"run": {parts[3]}}
	}
	if len(parts) == 4 && parts[2] == "logs" {
		r.path, r.query = path(parts[:3]...), url.Values{"stream": {parts[3]}}
	}
	return r
}

func readResource(ctx context.Context, session Session, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	parts := strings.Split(strings.TrimPrefix(uri, scheme), "/")
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil || parts[i] == "" || parts[i] == "." || parts[i] == ".." {
			return nil, sdk.ResourceNotFoundError(uri)
		}
	}
	c := &call{client: session.Client}
	if req.Extra != nil && req.Extra.Header != nil {
		c.authorization = req.Extra.Header.Get("Authorization")
	}
	resp, err := c.send(ctx, resourceRequest(parts))
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeNotFound {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := readAll(resp.Body)
	if err != nil {
		return nil, err
	}
	contents := &sdk.ResourceContents{URI: uri, MIMEType: resp.Header.Get("Content-Type")}
	if utf8.Valid(raw) {
		contents.Text = string(raw)
	} else {
		contents.Blob = raw
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
}
