package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Files with holes are written in format 1.0 of GNU tar: the contents of the
// entry are a list of extents and then their bytes. The standard library does
// not write this, and it reads every zero of a hole. So this file writes the
// header, and reads the bytes of an entry without the library's reader.

const tarBlock = 512

// The records of a file with holes.
const (
	sparsePrefix = "GNU.sparse."
	sparseMajor  = sparsePrefix + "major"
	sparseMinor  = sparsePrefix + "minor"
	sparseName   = sparsePrefix + "name"
	sparseSize   = sparsePrefix + "realsize"
)

// sparse writes a file with holes.
func (a *writer) sparse(f *os.File, e tree.Entry, h *tar.Header, extents []fsx.Extent) error {
	list := fsx.EncodeExtents(extents, e.Size)
	stored := int64(len(list)) + fsx.ExtentsLen(extents)
	header, err := sparseHeader(h, stored)
	if err != nil {
		return err
	}
	// The library has only buffered the padding of the entry before.
	if err := a.tar.Flush(); err != nil {
		return err
	}
	if _, err := a.out.Write(append(header, list...)); err != nil {
		return err
	}
	a.sum.Reset(e.Size, &e)
	if err := fsx.SendExtents(a.ctx, a.out, f, extents, e.Size, a.sum); err != nil {
		if errors.Is(err, io.EOF) {
			return errDamaged
		}
		return err
	}
	if _, err := a.out.Write(make([]byte, -stored&(tarBlock-1))); err != nil {
		return err
	}
	return a.checkSum(e)
}

// sparseHeader returns the header blocks of an entry with holes. The library
// makes them and leaves out the records about holes, which are added to the ones
// that it wrote.
func sparseHeader(h *tar.Header, stored int64) ([]byte, error) {
	records := sparseRecord(sparseMajor, "1") + sparseRecord(sparseMinor, "0") +
		sparseRecord(sparseName, h.Name) + sparseRecord(sparseSize, strconv.FormatInt(h.Size, 10))
	plain := *charset(h)
	plain.Size = stored
	// The name under which programs that do not know the format extract it.
	dir, base := path.Split(h.Name)
	plain.Name = dir + "GNUSparseFile.0/" + base
	plain.PAXRecords[recordSparse] = "1" // so that there is a block of records
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&plain); err != nil {
		return nil, err
	}
	blocks := b.Bytes()
	first, last := blocks[:tarBlock], blocks[len(blocks)-tarBlock:]
	if first[156] != tar.TypeXHeader {
		return nil, tar.ErrHeader
	}
	size, err := blockOctal(first)
	if err != nil {
		return nil, err
	}
	all := append(bytes.Clone(blocks[tarBlock:tarBlock+size]), records...)
	if len(all) > 1<<20 {
		return nil, tar.ErrFieldTooLong
	}
	copy(first[124:136], fmt.Sprintf("%011o\x00", len(all)))
	copy(first[148:156], "        ")
	sum := 0
	for _, c := range first {
		sum += int(c)
	}
	copy(first[148:156], fmt.Sprintf("%06o\x00 ", sum))
	out := append(bytes.Clone(first), all...)
	out = append(out, make([]byte, -len(all)&(tarBlock-1))...)
	return append(out, last...), nil
}

// sparseRecord returns a PAX record, which begins with its own length.
func sparseRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	size := len(rest)
	for len(strconv.Itoa(size))+len(rest) != size {
		size = len(strconv.Itoa(size)) + len(rest)
	}
	return strconv.Itoa(size) + rest
}

// blockOctal returns the size in a header block.
func blockOctal(block []byte) (int64, error) {
	n, err := strconv.ParseInt(strings.Trim(string(block[124:136]), " \x00"), 8, 64)
	if err != nil {
		return 0, tar.ErrHeader
	}
	return n, nil
}

// headerTrace follows the blocks that the library reads for the header of an
// entry, and keeps the last block with the list of extents after it.
type headerTrace struct {
	skip  int64 // bytes before the next block
	block []byte
	list  []byte
	found bool
}

func (t *headerTrace) follow(b []byte) {
	for len(b) > 0 {
		switch {
		case t.found:
			t.list = append(t.list, b...)
			return
		case t.skip > 0:
			n := min(int64(len(b)), t.skip)
			t.skip -= n
			b = b[n:]
		default:
			n := min(len(b), tarBlock-len(t.block))
			t.block = append(t.block, b[:n]...)
			b = b[n:]
			if len(t.block) == tarBlock {
				t.header()
			}
		}
	}
}

// header handles a whole block: one of records, or the entry's own.
func (t *headerTrace) header() {
	switch t.block[156] {
	case tar.TypeXHeader, tar.TypeXGlobalHeader, tar.TypeGNULongName, tar.TypeGNULongLink:
		size, err := blockOctal(t.block)
		if err != nil {
			size = 0 // the library refuses it
		}
		t.skip = (size + tarBlock - 1) &^ (tarBlock - 1)
		t.block = t.block[:0]
	default:
		t.found = true
	}
}

// copyExtents writes a file whose parts are in the archive.
func (x *extractor) copyExtents(f *os.File, h *tar.Header) error {
	trace := &x.in.header
	extents, err := fsx.DecodeExtents(bytes.NewReader(trace.list), h.Size)
	if err != nil {
		return refuse(h.Name, "%v", fsx.ErrExtents)
	}
	stored, err := blockOctal(trace.block)
	if text, ok := h.PAXRecords["size"]; ok {
		stored, err = strconv.ParseInt(text, 10, 64)
	}
	left := fsx.ExtentsLen(extents)
	if err != nil || stored != int64(len(trace.list))+left {
		return refuse(h.Name, "%v", fsx.ErrExtents)
	}
	err = fsx.ReceiveExtents(x.ctx, f, pastTar{x.in}, extents, h.Size)
	if errors.Is(err, unix.EFBIG) {
		return refuse(h.Name, "a sparse file of %d bytes is too big for the file system", h.Size)
	}
	x.in.taken = left
	return x.copyError(h, err)
}

// pastTar reads the archive without the library's reader.
type pastTar struct{ in *input }

func (p pastTar) Read(b []byte) (int, error) { return p.in.read(b) }
