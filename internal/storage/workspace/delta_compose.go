package workspace

import (
	"context"
	"fmt"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// compose keeps the new contents by digest.
func (b deltaBackend) compose(ed *editing) error {
	sl := ed.sl
	o, err := b.s.openObjects(sl.op)
	if err != nil {
		return err
	}
	defer o.close()
	for i := range ed.edits {
		e := &ed.edits[i]
		if e.New == nil || e.New.Kind != tree.KindFile || e.LinkTo != "" || o.has(e.New.Digest, e.New.Size) {
			continue
		}
		if err := putEdit(sl.ctx, o, e); err != nil {
			return err
		}
	}
	root, links, split, err := ed.tree(sl.pw.w, "")
	if err != nil {
		return err
	}
	sl.split, sl.objects = split, o.written.Load()
	if err := sl.pw.w.SetArea(AreaWorkspace, root, links); err != nil {
		return err
	}
	if !ed.noHome {
		return sl.keepHome()
	}
	return ed.emptyHome()
}

func putEdit(ctx context.Context, o *objects, e *Edit) error {
	r, err := e.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := o.putReader(ctx, r, *e.New); err != nil {
		return fmt.Errorf("edit %q: %w", e.Path, err)
	}
	return nil
}
