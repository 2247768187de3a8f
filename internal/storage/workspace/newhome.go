package workspace

import "context"

// NewHome makes a new state from a state: with its workspace and its other areas, and a
// home as that of a new cell.
func (s *Store) NewHome(ctx context.Context, c Cell, layer, op string) (Sealed, error) {
	return s.compose(ctx, c, layer, op, nil, true)
}

// emptyHome gives the layer a home of its own without files.
func (ed *editing) emptyHome() error {
	sl := ed.sl
	d, err := plainDir(sl.p.dir, AreaHome)
	if err != nil {
		return err
	}
	defer d.Close()
	sl.keep = append(sl.keep, AreaHome)
	return setNewHome(sl.pw.w, d)
}
