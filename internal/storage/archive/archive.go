// Package archive turns a tree into a tar archive and back.
//
// The archives are in PAX format, so that every tar program can read them, with
// a few additional records for what the format cannot express. Files with holes
// are stored in GNU tar's format 1.0, in which a hole takes no space. Extract
// restores exactly what Write wrote: contents, holes, modes, owners, nanoseconds,
// links of both kinds, FIFOs, sockets, extended attributes, names of any bytes. An
// archive may be hostile: it is extracted through a directory descriptor only, and
// the first entry that does not belong in a tree ends the extraction with an error
// that names it.
//
// The package knows nothing about cells, layers or where contents are kept.
package archive

import (
	"errors"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// ErrArchive is wrapped by every error whose cause is in the archive itself.
var ErrArchive = errors.New("archive cannot be used")

// Options configures how an archive is written.
type Options struct {
	// Zstd compresses it.
	Zstd bool
}

// IsZstd reports whether a file of this name should be compressed.
func IsZstd(name string) bool {
	return strings.HasSuffix(name, ".zst") || strings.HasSuffix(name, ".tzst")
}

// Additional PAX records. Programs that do not know them still get every name and
// every byte.
const (
	// recordType is "socket" on an empty regular entry that represents a socket.
	recordType = "FORKCELL.type"
	// recordSparse is "1" on a file that had holes: blocks of zeros need no space.
	recordSparse = "FORKCELL.sparse"
	// recordChanges is "1" in the global header of an archive of changes alone.
	recordChanges = "FORKCELL.changes"
	// recordDeleted holds deleted paths, separated by NUL, in global headers.
	recordDeleted = "FORKCELL.deleted"

	recordPrefix  = "FORKCELL."
	recordXattr   = "SCHILY.xattr."
	recordCharset = "hdrcharset"
)

// Compress returns a writer that compresses to w, as Write does with Zstd.
func Compress(w io.Writer) (io.WriteCloser, error) { return newEncoder(w) }

// xattrKey returns the record name of an attribute. "=" would end it, so it is
// escaped as in GNU tar.
func xattrKey(name string) string {
	return recordXattr + strings.NewReplacer("%", "%25", "=", "%3D").Replace(name)
}

func xattrName(key string) string {
	return strings.NewReplacer("%25", "%", "%3D", "=").Replace(strings.TrimPrefix(key, recordXattr))
}

// entryName returns the name of a path in an archive.
func entryName(path string, k tree.Kind) string {
	switch {
	case path == ".":
		return "./"
	case k == tree.KindDir:
		return "./" + path + "/"
	}
	return "./" + path
}
