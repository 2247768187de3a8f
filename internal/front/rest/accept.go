package rest

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/forkcell/forkcell/internal/api"
)

// negotiate refuses a request that accepts none of the types that its route answers with,
// before the route does anything. It leaves the accepted types in the header, without their
// parameters: the library fails on parameters that it does not expect.
func negotiate(ctx huma.Context) error {
	r, _ := humago.Unwrap(ctx)
	given := r.Header.Values("Accept")
	if len(given) == 0 {
		return nil
	}
	wanted, some := acceptedTypes(given)
	offered := answerTypes(ctx.Operation())
	if some && len(offered) > 0 && !slices.ContainsFunc(wanted, func(w string) bool {
		return slices.ContainsFunc(offered, func(o string) bool { return covers(w, o) })
	}) {
		return &api.Error{
			Kind: api.Usage, Code: api.CodeNotAcceptable, Message: "the resource has none of the types that Accept names",
			Hint: "accept " + strings.Join(offered, " or "),
		}
	}
	r.Header.Set("Accept", strings.Join(wanted, ", "))
	return nil
}

// acceptedTypes returns the types that a header Accept asks for, and reports whether it names
// any type, wanted or not. What is malformed is ignored.
func acceptedTypes(header []string) (wanted []string, some bool) {
	for part := range strings.SplitSeq(strings.Join(header, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil || !strings.Contains(kind, "/") {
			continue
		}
		some = true
		if q, err := strconv.ParseFloat(parameters["q"], 64); err != nil || q > 0 {
			wanted = append(wanted, kind)
		}
	}
	return wanted, some
}

// covers reports whether a type, which may be a range such as text/*, has another.
func covers(wanted, offered string) bool {
	prefix, isRange := strings.CutSuffix(wanted, "*")
	return wanted == offered || wanted == "*/*" || isRange && prefix != "" && strings.HasPrefix(offered, prefix)
}

// answerTypes returns the types of the answers of an operation that succeeds, in order.
func answerTypes(op *huma.Operation) (types []string) {
	for status, answer := range op.Responses {
		if n, err := strconv.Atoi(status); err != nil || n >= http.StatusMultipleChoices {
			continue
		}
		for kind := range answer.Content {
			types = append(types, kind)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}
