package cell

import (
	"errors"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/store"
)

// Explain gives a failure that nobody worded for people its next step: a damaged
// database, a record that is missing in it, a full disk.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
		return err
	}
	e := &api.Error{Message: err.Error(), Err: err}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, store.ErrFull):
		e.Kind, e.Code = api.Failed, "disk_full"
		e.Message = "the disk of the state directory is full: " + err.Error()
		e.Hint = "free some space there; `forkcell rm --force CELL` and `forkcell gc` work on a full disk"
	case errors.Is(err, store.ErrDatabase):
		e.Kind, e.Code, e.Hint = api.Refused, "home", "`forkcell recover` rebuilds it from the signed log"
	case errors.Is(err, store.ErrNotFound):
		e.Kind, e.Code = api.Refused, "home"
		e.Message = "the database lacks a record that another one refers to"
		e.Hint = "`forkcell recover` puts it back, or names what is lost"
	default:
		return err
	}
	return e
}
