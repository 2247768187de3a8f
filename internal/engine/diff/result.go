package diff

import (
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Result holds the changes, and opens the files behind them.
type Result struct {
	api.DiffResult

	each func(func(tree.Change) error) error

	// Text, if set, returns the comparison as text, instead of Each and Open: a patch,
	// or changed lines of each file.
	Text func(stat bool) (io.ReadCloser, error) `json:"-"`

	// RawAside are the changes of SetAside.
	RawAside []tree.Change `json:"-"`

	Raw  []tree.Change                                                    `json:"-"`
	Open func(side int, path string, e tree.Entry) (io.ReadCloser, error) `json:"-"` // side 0 = from, 1 = to
	// Control returns what makes control files of changes, by their paths, old ones too. It
	// agrees with what an apply to the source directory holds back.
	Control func(changes []tree.Change) (map[string]string, error) `json:"-"`
}

// Each calls fn for every change, in the order of their paths.
func (r *Result) Each(fn func(tree.Change) error) error {
	if r.each != nil {
		return r.each(fn)
	}
	for _, ch := range r.Raw {
		if err := fn(ch); err != nil {
			return err
		}
	}
	return nil
}

// EachAside calls fn for every change that is set aside.
func (r *Result) EachAside(fn func(tree.Change) error) error {
	for _, ch := range r.RawAside {
		if err := fn(ch); err != nil {
			return err
		}
	}
	return nil
}
