package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
)

// pageSize is how many items of a list one request asks for.
const pageSize = 500

// list returns the items of a list, page by page as they are used. It ends with the
// first error.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := url.Values{"limit": {strconv.Itoa(pageSize)}}
		for key, values := range query {
			if len(values) > 0 && values[0] != "" {
				q[key] = values
			}
		}
		for {
			page, err := get[api.List[T]](ctx, c, path+"?"+q.Encode())
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			if len(page.Items) == 0 || *page.Next == q.Get("cursor") {
				var none T
				yield(none, &Error{Kind: api.Failed, Code: api.CodeProtocol, Message: "GET " + path + ": a list without an end"})
				return
			}
			q.Set("cursor", *page.Next)
		}
	}
}
