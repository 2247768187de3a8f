package rest

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// cursor returns the text of a position in a list.
func cursor(position string) *string {
	text := base64.RawURLEncoding.EncodeToString([]byte("v1:" + position))
	return &text
}

// position reads a cursor.
func (p Page) position() (string, error) {
	if p.Cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || len(text) < 3 || string(text[:3]) != "v1:" {
		return "", badCursor()
	}
	return string(text[3:]), nil
}

// number reads a cursor that is a number.
func (p Page) number() (int64, error) {
	text, err := p.position()
	if err != nil || text == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, badCursor()
	}
	return n, nil
}

func badCursor() error {
	return api.Usagef("use `next` of the page before", "malformed cursor")
}

// timeKey returns the key of an item that was made at a time.
func timeKey(at time.Time, id string) string {
	return at.UTC().Format(agedLayout) + id
}

// agedLayout is the time in a position of aged.
const agedLayout = "2006-01-02T15:04:05.000000000Z"

// agedAt returns the time of a position.
func agedAt(position string) (time.Time, error) {
	at, err := time.Parse(agedLayout, position[:min(len(position), len(agedLayout))])
	if err != nil {
		return at, badCursor()
	}
	return at, nil
}

// keyedItem is the key of an item, and where it is in its list.
type keyedItem struct {
	key string
	at  int
}

// cut returns the page of a list that begins after the cursor. key returns the
// position of an item, by which the page is sorted.
func cut[T any](p Page, items []T, key func(T) string) (*api.List[T], error) {
	after, err := p.position()
	if err != nil {
		return nil, err
	}
	keys := make([]keyedItem, 0, len(items))
	for i, item := range items {
		if k := key(item); after == "" || k > after {
			keys = append(keys, keyedItem{k, i})
		}
	}
	slices.SortFunc(keys, func(a, b keyedItem) int { return strings.Compare(a.key, b.key) })
	list := &api.List[T]{Items: []T{}}
	if len(keys) > p.Limit {
		keys = keys[:p.Limit]
		list.Next = cursor(keys[p.Limit-1].key)
	}
	for _, k := range keys {
		list.Items = append(list.Items, items[k.at])
	}
	return list, nil
}
