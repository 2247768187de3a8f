//go:build !lean

package archive

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a hostile archive can ask for.
const maxWindow = 128 << 20

func newDecoder(r io.Reader) (decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

func newEncoder(w io.Writer) (io.WriteCloser, error) {
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
}
