package fsx

import (
	"crypto/rand"
	"os"
	"strings"

	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// TempPrefix begins the names of files that WriteFile has not yet put in place.
// A crash can leave them behind; the owner of the directory may remove them.
const TempPrefix = ".forkcell-tmp-"

// WriteFile puts data at rel, replacing what was there: a reader, or the next
// start after a crash, finds the old file or the whole new one. When it returns
// nil the file is durable under its name. No temporary file is left on error.
func WriteFile(d *Dir, rel string, data []byte, mode uint32) error {
	return writeFile(d, rel, data, mode, failpoint.Err)
}

// writeFile calls before with the name of each effect, just before it.
func writeFile(d *Dir, rel string, data []byte, mode uint32, before func(step string) error) (err error) {
	if err := CheckPath(rel); err != nil || rel == "." {
		return d.fail("write", rel, errPath)
	}
	if cut := strings.LastIndexByte(rel, '/'); cut >= 0 {
		parent, err := d.OpenDir(rel[:cut])
		if err != nil {
			return err
		}
		defer func() { _ = parent.Close() }()
		d, rel = parent, rel[cut+1:]
	}
	temp := TempPrefix + rand.Text()
	defer func() {
		if err != nil {
			_ = d.Remove(temp)
		}
	}()
	if err := before("fsx.create"); err != nil {
		return d.fail("create", temp, err)
	}
	f, err := d.Create(temp, mode)
	if err != nil {
		return err
	}
	if err := fill(f, data, before); err != nil {
		_ = f.Close()
		return d.fail("write", rel, err)
	}
	if err := f.Close(); err != nil {
		return d.fail("write", rel, err)
	}
	if err := before("fsx.rename"); err != nil {
		return d.fail("rename", rel, err)
	}
	if err := d.Rename(temp, d, rel, 0); err != nil {
		return err
	}
	if err := before("fsx.syncdir"); err != nil {
		return d.fail("sync", ".", err)
	}
	return d.Sync()
}

func fill(f *os.File, data []byte, before func(string) error) error {
	if err := before("fsx.write"); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := before("fsx.sync"); err != nil {
		return err
	}
	return f.Sync()
}
