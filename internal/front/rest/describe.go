package rest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// operationsAt returns the operations of a path.
func operationsAt(item *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{item.Get, item.Head, item.Post, item.Put, item.Patch, item.Delete, item.Options}
	return slices.DeleteFunc(all, func(op *huma.Operation) bool { return op == nil })
}

// shareErrors describes the error of each status once. The operations refer to it.
func shareErrors(doc *huma.OpenAPI) {
	shared := map[string]*huma.Response{}
	content := map[string]*huma.MediaType{problemType: {Schema: schemaOf[problem](doc.Components.Schemas)}}
	for _, item := range doc.Paths {
		for _, op := range operationsAt(item) {
			for _, status := range op.Errors {
				text := http.StatusText(status)
				name := strings.ReplaceAll(text, " ", "")
				shared[name] = &huma.Response{Description: text, Content: content}
				op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + name}
			}
		}
	}
	doc.Components.Responses = shared
}
