package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// metadata sets owner, attributes, mode and time of a path, in this order: a new
// owner clears bits of the mode and capabilities, a mode without write permission
// forbids setting attributes, and all of them change the time.
func (x *extractor) metadata(d *fsx.Dir, name string, n *node, m *metadata) error {
	if x.opt.SetOwners {
		if err := d.Chown(name, n.owner.UID, n.owner.GID); err != nil {
			return err
		}
	}
	for _, a := range m.xattrs {
		err := d.SetXattr(name, a.Name, a.Value)
		switch {
		case err == nil:
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
			if err := x.drop(n.path(), "attribute "+quote.Path(a.Name)); err != nil {
				return err
			}
		default:
			return err
		}
	}
	if n.kind != tree.KindSymlink {
		if err := d.Chmod(name, m.mode); err != nil {
			return err
		}
	}
	return d.Chtimes(name, fsx.Time{Sec: m.mtime.Unix(), Nsec: int32(m.mtime.Nanosecond())})
}

func (x *extractor) drop(p, what string) error {
	if x.opt.Dropped == nil {
		return refuse(p, "%s cannot be kept", what)
	}
	x.opt.Dropped(p, what)
	return nil
}

// checkRecords finds records that would be lost, and refuses those that must not
// get into a store.
func (x *extractor) checkRecords(p string, h *tar.Header) error {
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		switch {
		case key == recordType, key == recordSparse:
		case strings.HasPrefix(key, recordPrefix):
			return refuse(h.Name, "record %s is of a newer format", quote.Path(key))
		case strings.HasPrefix(key, recordXattr):
			if err := checkXattr(h.Name, xattrName(key)); err != nil {
				return err
			}
		case strings.HasPrefix(key, "SCHILY.acl."):
			if err := x.drop(p, "access control list in text form"); err != nil {
				return err
			}
		case strings.HasPrefix(key, "LIBARCHIVE.xattr."):
			// bsdtar writes each attribute twice.
			name := strings.TrimPrefix(key, "LIBARCHIVE.xattr.")
			if _, twin := h.PAXRecords[recordXattr+name]; !twin {
				if err := x.drop(p, "attribute "+quote.Path(name)); err != nil {
					return err
				}
			}
		case key == "SCHILY.fflags", key == "RHT.security.selinux":
			if err := x.drop(p, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkXattr refuses attributes that an overlay file system would interpret.
func checkXattr(entry, name string) error {
	switch {
	case name == "" || len(name) > 255 || strings.IndexByte(name, 0) >= 0:
		return refuse(entry, "bad attribute name %s", quote.Path(name))
	case strings.HasPrefix(name, "trusted.overlay."), strings.HasPrefix(name, "user.overlay."):
		return refuse(entry, "attribute %s is not allowed", quote.Path(name))
	}
	return nil
}

// file writes the contents of a regular file.
func (x *extractor) file(h *tar.Header, d *fsx.Dir, name string) (err error) {
	mapped := h.Typeflag == tar.TypeGNUSparse
	for key := range h.PAXRecords {
		mapped = mapped || strings.HasPrefix(key, sparsePrefix)
	}
	byMap := h.PAXRecords[sparseMajor] == "1" && h.PAXRecords[sparseMinor] == "0"
	limit := x.opt.MaxSparse
	if limit == 0 && !byMap {
		limit = 64 << 30
	}
	if mapped && limit > 0 && h.Size > limit {
		return refuse(h.Name, "a sparse file of %d bytes is too big", h.Size)
	}
	f, err := d.Create(name, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); cerr != nil && err == nil {
			err = fmt.Errorf("write %s: %w", quote.Path(name), cerr)
		}
	}()
	switch {
	case byMap:
		return x.copyExtents(f, h)
	case mapped, h.PAXRecords[recordSparse] == "1":
		return x.copySparse(f, h)
	}
	return x.copyPlain(f, h)
}
