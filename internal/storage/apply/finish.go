package apply

import (
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// finish ends a committed apply: displaced things go to the journal, the
// staging directory is removed, times are corrected. It can be interrupted and
// repeated.
func (s *writing) finish() error {
	if err := s.findStage(); err != nil {
		return err
	}
	if s.stage != nil && s.rec.Move {
		if err := s.moveOld(); err != nil {
			return err
		}
	}
	if err := s.openRoot(); err != nil {
		return err
	}
	mode, mtime, setTime := s.finalRoot()
	if err := s.clear(mode, mtime, setTime); err != nil {
		return err
	}
	if s.rec.DirTimes {
		if err := s.setTimes(); err != nil {
			return err
		}
	}
	if err := s.step("apply.finished"); err != nil {
		return err
	}
	return fsx.WriteFile(s.journal, finishedFile, nil, 0o600)
}

func (s *writing) moveOld() error {
	for _, u := range s.rec.Units {
		op := s.rec.op(u)
		if op.Old == nil {
			continue
		}
		if err := s.step("apply.keep"); err != nil {
			return err
		}
		to := oldDir + "/" + u.Slot
		err := s.move(s.stage, u.Slot, s.journal, to, unix.RENAME_NOREPLACE)
		if err != nil && !absent(err) { // absent: moved before the crash
			return err
		}
		if s.user && isDir(op.Old) && op.Old.Mode&0o200 == 0 {
			if err := s.journal.Chmod(to, op.Old.Mode); err != nil {
				return err
			}
		}
	}
	return s.journal.SyncFS()
}

// finalRoot returns the new entry of the root directory. Its time stays as it was
// unless names in it changed: the staging directory does not count.
func (s *writing) finalRoot() (mode uint32, mtime fsx.Time, setTime bool) {
	mode, mtime, setTime = s.rec.Intent.Mode, s.rec.Intent.MTime, true
	if !s.rec.DirTimes {
		for _, u := range s.rec.Units {
			if parentOf(s.rec.op(u).Path) == "." {
				setTime = false
			}
		}
	}
	for _, m := range s.rec.Metas {
		if op := s.rec.Ops[m].op; op.Path == "." {
			mode = op.New.Mode
			if s.rec.DirTimes {
				mtime = op.New.MTime
			}
		}
	}
	return mode, mtime, setTime
}

// setTimes: directories in which names changed keep their times, those with a
// recorded time get it.
func (s *writing) setTimes() error {
	for _, t := range s.rec.Times {
		if err := s.root.Chtimes(string(t.Path), t.MTime); err != nil && !absent(err) {
			return err
		}
	}
	for _, m := range s.rec.Metas {
		op := s.rec.Ops[m].op
		if op.Path == "." {
			continue
		}
		if err := s.root.Chtimes(op.Path, op.New.MTime); err != nil && !absent(err) {
			return err
		}
	}
	return nil
}
