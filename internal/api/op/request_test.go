package op_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// TestRequests holds the type of each request to the path of its operation: it has the
// parameters as fields, in their order, and each other field says where it is sent.
func TestRequests(t *testing.T) {
	t.Parallel()
	some := 0
	for _, a := range op.All() {
		typed, ok := a.(interface{ Request() reflect.Type })
		if !ok {
			continue
		}
		some++
		o, request := a.Head(), typed.Request()
		names := op.PathNames(request)
		var parameters []string
		for part := range strings.SplitSeq(o.Path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				parameters = append(parameters, strings.TrimSuffix(name, "}"))
			}
		}
		if !slices.Equal(names, parameters) {
			t.Errorf("%s: %s has fields for %q of %s, in this order", o.ID, request, names, o.Path)
		}
		for _, f := range reflect.VisibleFields(request) {
			tag, has := f.Tag.Lookup("json")
			if !f.Anonymous && (!has || tag != "-" && f.Tag.Get("doc") == "") {
				t.Errorf("%s: %s.%s says nothing about its place in a request", o.ID, request, f.Name)
			}
		}
	}
	if some == 0 {
		t.Error("no operation has a type")
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	accept := api.AcceptRequest{Cell: "a/b", Run: "run_1", Force: true}
	read := api.AcceptedRequest{OfCell: api.OfCell{Cell: "demo"}, Receipts: true, Roots: []string{"x", "y"}}
	for _, tt := range []struct {
		target func() (string, error)
		rest   any
		want   string
		body   string
	}{
		{func() (string, error) { return op.Accept.Target(&accept) }, &accept, "/v1/cells/a%2Fb/accept", `{"run":"run_1","force":true}`},
		{func() (string, error) { return op.GetAccepted.Target(&read) }, &read, "/v1/cells/demo/accepted?receipts=true&root=x&root=y", `{}`},
	} {
		got, err := tt.target()
		body, jsonErr := json.Marshal(tt.rest)
		if err != nil || jsonErr != nil || got != tt.want || string(body) != tt.body {
			t.Errorf("%s %s %v %v, want %s %s", got, body, err, jsonErr, tt.want, tt.body)
		}
	}
	part := api.AcceptRequest{Cell: "demo", ExceptPaths: []string{"secret"}}
	if _, err := op.Accept.Target(&part); api.CodeOf(err) != api.CodeUnsupported {
		t.Errorf("a request that accepts only a part is sent as one that accepts all: %v", err)
	}
}

func TestSetPath(t *testing.T) {
	t.Parallel()
	var in api.AcceptedRequest
	op.SetPath(&in, "cell", "demo")
	op.SetPath(&in, "session", "none")
	if in.Cell != "demo" || op.PathValue(in, "cell") != "demo" || op.PathValue(&in, "session") != "" || op.PathValue(nil, "cell") != "" {
		t.Errorf("%+v", in)
	}
	if names := op.BesideBody(reflect.TypeFor[api.AcceptedRequest]()); !slices.Equal(names, []string{"cell", "receipts", "root"}) {
		t.Errorf("%v", names)
	}
}

// TestBody: a request has a body if it has a field there, and must have one if a field
// cannot be left out.
func TestBody(t *testing.T) {
	t.Parallel()
	for what, got := range map[string][2]bool{
		"none": pair(op.Body[api.OfCell]()), "may": pair(op.Body[api.AcceptRequest]()), "must": pair(op.Body[api.EvalRequest]()),
	} {
		if want := map[string][2]bool{"none": {}, "may": {true, false}, "must": {true, true}}[what]; got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func pair(a, b bool) [2]bool { return [2]bool{a, b} }
