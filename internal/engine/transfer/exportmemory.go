package transfer

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// memorySuffix follows the output of an export in the name of the directory with its
// memory.
const memorySuffix = ".memory"

// checkMemory refuses to export memory that is not there, is damaged, or would replace
// something.
func (x *export) checkMemory() error {
	if x.at.Memory == "" {
		return api.Refusef(api.CodeNoMemory, "leave --with-memory out", "checkpoint %s has no memory", x.at.ID)
	}
	if _, err := os.Lstat(x.output + memorySuffix); err == nil {
		return api.Refusef(api.CodeExists, "choose another output", "%s exists already", quote.Path(x.output+memorySuffix))
	}
	if err := x.e.Images().Image(x.at.ID).Verify(x.ctx, x.at.Memory); err != nil {
		return home.MemoryError(x.at.ID, err)
	}
	return nil
}

// memory writes the memory of the state to a directory that only the caller may enter.
// It appears whole or not at all. If the process is killed meanwhile, a directory whose
// name begins with fsx.TempPrefix remains.
func (x *export) memory() (err error) {
	from, err := x.e.Images().Image(x.at.ID).Open()
	if err != nil {
		return home.MemoryError(x.at.ID, err)
	}
	defer from.Close()
	name := path.Base(x.output) + memorySuffix
	parent, err := fsx.OpenRoot(path.Dir(x.output))
	if err != nil {
		return err
	}
	defer parent.Close()
	temp := fsx.TempPrefix + rand.Text()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", quote.Path(name), err), parent.RemoveAll(temp))
		}
	}()
	if err := parent.Mkdir(temp, 0o700); err != nil {
		return err
	}
	to, err := parent.OpenDir(temp)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := x.e.Workspace.CopyDir(x.ctx, from, to); err != nil {
		return err
	}
	if err := to.SyncFS(); err != nil {
		return err
	}
	if err := parent.Rename(temp, parent, name, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	x.res.Notes = append(x.res.Notes, "its memory, which may hold secrets, is in "+quote.Path(x.req.Output+memorySuffix))
	return parent.Sync()
}
