package home

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// LongPath returns the refusal of paths that are too long to be listed.
func LongPath(c store.Cell, err error) error {
	long, ok := errors.AsType[*tree.LongPathError](err)
	if !ok {
		return err
	}
	hint := fmt.Sprintf("`forkcell run %s -- rm -r %s` removes it in the cell", c.Name, quote.Arg("./"+long.Top()))
	if c.Live != "" {
		hint = fmt.Sprintf("`rm -r %s` removes it", quote.Arg(c.Live+"/"+long.Top()))
	}
	return &api.Error{Kind: api.Refused, Code: api.CodeLongPath, Message: long.Error(), Hint: hint, Err: err}
}

// MemoryError returns the error of memory that cannot be used.
func MemoryError(checkpoint string, err error) error {
	if errors.Is(err, moments.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeDamaged, Err: err, Message: fmt.Sprintf("the memory of checkpoint %s cannot be used: %v", checkpoint, err),
			Hint: "the files of the checkpoint are not affected, and can be forked",
		}
	}
	return api.Failf(api.CodeFailed, err, "read the memory of checkpoint %s", checkpoint)
}

// PausedCell returns the error of a command that needs a cell to be live.
func PausedCell(name string) error {
	return api.Refusef(api.CodePaused, "`forkcell resume "+name+"` continues it", "cell %s is paused", name)
}
