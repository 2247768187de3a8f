package server

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

// aged returns the key of an item that was made at a time.
func aged(at time.Time, id string) string {
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

// cut returns the page of a list that begins after the cursor. key returns the
// position of an item; the list is sorted by it.
func cut[T any](p Page, items []T, key func(T) string) (*api.List[T], error) {
	after, err := p.position()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(items, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	if after != "" {
		at := slices.IndexFunc(items, func(item T) bool { return key(item) > after })
		if at < 0 {
			at = len(items)
		}
		items = items[at:]
	}
	list := &api.List[T]{Items: items}
	if len(items) > p.Limit {
		list.Items = items[:p.Limit]
		list.Next = cursor(key(list.Items[p.Limit-1]))
	}
	return list, nil
}
