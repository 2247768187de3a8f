package inspect

import (
	"net/http"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
)

// gRPC reads the service and the method of a call from its path. The messages
// are not read, so streams go through as they come.
func gRPC(r Request) (Result, error) {
	kind, err := single(r.Header, "Content-Type")
	if err != nil {
		return Result{}, err
	}
	path, rooted := strings.CutPrefix(r.Path, "/")
	service, method, _ := strings.Cut(path, "/")
	switch {
	case r.ProtoMajor != 2:
		return Result{}, refuse("a gRPC call needs HTTP/2")
	case r.Method != http.MethodPost:
		return Result{}, refuse("a gRPC call is a POST, not %s", show(r.Method))
	case !grpcType(kind):
		return Result{}, refuse("the Content-Type is not application/grpc")
	case r.RawQuery != "":
		return Result{}, refuse("a gRPC call has no query in its URL")
	case !rooted || !name(method) || slices.ContainsFunc(strings.Split(service, "."), func(s string) bool { return !name(s) }):
		return Result{}, refuse("the path of a gRPC call is /package.Service/Method")
	}
	return Result{Facts: policy.Facts{Protocol: policy.GRPC, Calls: []policy.Call{{Service: service, Method: method}}}}, nil
}

// grpcType accepts application/grpc and its encodings, such as
// application/grpc+proto. gRPC-Web is another protocol.
func grpcType(s string) bool {
	rest, ok := strings.CutPrefix(s, "application/grpc")
	encoding, some := strings.CutPrefix(rest, "+")
	return ok && (rest == "" || some && name(encoding))
}
