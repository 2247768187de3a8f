package store

import "zombiezen.com/go/sqlite"

// History is the size of a cell's history. What was computed of the records of a
// cell holds as long as it stays the same.
type History struct {
	Checkpoints, Freed int64 // the number of states, and of those that gc freed
	Runs               int64 // unfinished ones included
	Revision           int64 // the number of the newest statement about the cell
	LastReceipt        string
}

// History returns the size of a cell's history.
func (tx *Tx) History(cellID string) (h History, err error) {
	err = tx.query(func(r *sqlite.Stmt) error {
		h = History{
			Checkpoints: r.ColumnInt64(0), Freed: r.ColumnInt64(1), Runs: r.ColumnInt64(2), Revision: r.ColumnInt64(3), LastReceipt: r.ColumnText(4),
		}
		return nil
	}, `SELECT (SELECT count(*) FROM checkpoints WHERE cell_id=?1),
		(SELECT coalesce(sum(freed),0) FROM checkpoints WHERE cell_id=?1),
		(SELECT count(*) FROM runs WHERE cell_id=?1),
		coalesce((SELECT seq FROM statements WHERE cell_id=?1 ORDER BY seq DESC LIMIT 1),0),
		coalesce((SELECT receipt_id FROM runs WHERE cell_id=?1 AND state='done' ORDER BY ord DESC LIMIT 1),'')`, cellID)
	return h, err
}
