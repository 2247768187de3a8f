package patch

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/document"
)

// WriteDocument writes a JSON document with a list of changes, one change after the
// other, so that a list of any length needs no memory. head is the document with an
// empty list under the key changes, and one returns a change as it stands there.
func WriteDocument(w io.Writer, head any, each func(func(tree.Change) error) error, one func(tree.Change) any) error {
	var frame bytes.Buffer
	if err := document.Write(&frame, head); err != nil {
		return err
	}
	before, after, ok := bytes.Cut(frame.Bytes(), []byte(`"changes":[]`))
	if !ok {
		return errors.New("write diff: a document without changes")
	}
	out := bufio.NewWriterSize(w, 64<<10)
	_, _ = out.Write(before)
	_, _ = out.WriteString(`"changes":[`)
	first := true
	err := each(func(ch tree.Change) error {
		var text bytes.Buffer
		if err := document.Write(&text, one(ch)); err != nil {
			return err
		}
		if !first {
			_ = out.WriteByte(',')
		}
		_, err := out.Write(bytes.TrimSpace(text.Bytes()))
		if first && err == nil {
			err = out.Flush() // show the first change at once
		}
		first = false
		return err
	})
	if err != nil {
		return errors.Join(err, out.Flush())
	}
	_ = out.WriteByte(']')
	_, _ = out.Write(after)
	return out.Flush()
}
