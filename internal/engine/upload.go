package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

const (
	// uploadDir is the directory of uploads, in the home.
	uploadDir = "uploads"
	// uploadLife is how long an upload waits for its cell.
	uploadLife = time.Hour
	// unpackedLife is how long the files of an unpacked archive can be in use.
	unpackedLife = 24 * time.Hour
)

// Upload keeps an archive for a new cell. It is not durable: a daemon removes those
// that an earlier one left.
func (e *Engine) Upload(ctx context.Context, r io.Reader) (*api.Upload, error) {
	if err := e.ExpireUploads(uploadLife); err != nil {
		return nil, err
	}
	if err := e.Store.Dir().MkdirAll(uploadDir, 0o700); err != nil {
		return nil, err
	}
	dir, err := e.Store.Dir().OpenDir(uploadDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	up := &api.Upload{Upload: store.NewID("upl")}
	name := e.uploadName(up.Upload)
	f, err := dir.Create(name, 0o600)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	up.Bytes, err = io.Copy(io.MultiWriter(f, hash), readerUntil{ctx, r})
	if err == nil && up.Bytes == 0 {
		err = api.Usagef("send an archive", "the upload is empty")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, dir.Remove(name))
	}
	up.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return up, nil
}

// readerUntil reads until a context ends.
type readerUntil struct {
	ctx context.Context //nolint:containedctx // of the one copy
	r   io.Reader
}

func (r readerUntil) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// ExpireUploads removes uploads that are older than a time, and files of unpacked
// archives that cannot be used any more. With 0 it removes all.
func (e *Engine) ExpireUploads(age time.Duration) error {
	dir, err := e.Store.Dir().OpenDir(uploadDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := dir.Lstat(name)
		life := age
		if err == nil && info.IsDir() && age > 0 {
			life = max(age, unpackedLife)
		}
		if err == nil && e.Now().Sub(info.MTime.Time()) >= life {
			err = dir.RemoveAll(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// UploadedBytes returns the disk space of the caller's uploads, also of those that are still
// arriving.
func (e *Engine) UploadedBytes() (total int64, err error) {
	dir, err := e.Store.Dir().OpenDir(uploadDir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Names()
	for _, name := range names {
		if !strings.HasSuffix(name, e.uploadName("")) {
			continue
		}
		info, err := dir.Lstat(name)
		if err == nil {
			total += info.Size
		} else if !errors.Is(err, fs.ErrNotExist) { // it has become a cell
			return 0, err
		}
	}
	return total, err
}

// uploadName returns the name of the file of an upload. It depends on who made it:
// for others the upload does not exist.
func (e *Engine) uploadName(id string) string {
	owner := sha256.Sum256([]byte(e.Caller.Actor()))
	return id + "-" + hex.EncodeToString(owner[:16])
}

// checkUpload refuses an id that no upload has.
func (e *Engine) checkUpload(id string) error {
	f, err := e.openUpload(id)
	if err != nil {
		return err
	}
	return f.Close()
}

func (e *Engine) openUpload(id string) (*os.File, error) {
	if !strings.HasPrefix(id, "upl_") || strings.Contains(id, "/") || fsx.CheckPath(id) != nil {
		return nil, api.Missing("upload", quote.Arg(id), "POST /v1/uploads makes one")
	}
	f, err := e.Store.Dir().OpenFile(uploadDir + "/" + e.uploadName(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Missing("upload", quote.Arg(id), "unused ones expire after an hour")
	}
	return f, err
}

// openArchive opens the archive that a cell is made from.
func (e *Engine) openArchive(source string) (*os.File, error) {
	if id, ok := strings.CutPrefix(source, api.UploadSource); ok {
		return e.openUpload(id)
	}
	return e.OpenHostFile(source)
}

// dropUpload removes an upload that has become a cell. One that cannot be removed
// expires.
func (e *Engine) dropUpload(id string) { _ = e.Store.Dir().Remove(uploadDir + "/" + e.uploadName(id)) }
