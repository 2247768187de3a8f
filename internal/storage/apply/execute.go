package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// Execute carries out a plan. journal is an empty, durable directory that
// belongs to this plan alone; the target is never inside it nor the other way
// round. On error the target is as it was before, unless the error is
// ErrUnfinished: then the roll-back failed too, or, if Report.Committed says that
// the changes stand, what follows the commit did, and Recover has to be called.
func Execute(ctx context.Context, p Plan, src Source, journal *fsx.Dir, opt Options) (Report, error) {
	var report Report
	if p.ID == "" || path.Base(p.ID) != p.ID || fsx.CheckPath(p.ID) != nil {
		return report, fmt.Errorf("%w: id %q", errPlan, p.ID)
	}
	s, err := begin(ctx, p, journal, opt)
	if err != nil {
		return report, fmt.Errorf("apply to %s: %w", p.Target, err)
	}
	defer s.close()
	err = s.run(ctx, p, src, &report)
	if err == nil {
		return report, nil
	}
	switch {
	case report.Committed:
		err = errors.Join(ErrUnfinished, err)
	case s.began && !errors.Is(err, ErrUnfinished):
		s.ctx = context.WithoutCancel(ctx)
		err = errors.Join(err, s.rollBack())
	}
	return report, fmt.Errorf("apply to %s: %w", p.Target, err)
}

func begin(ctx context.Context, p Plan, journal *fsx.Dir, opt Options) (*writing, error) {
	root, err := fsx.OpenRoot(p.Target)
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat(".")
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &writing{
		ctx: ctx, root: root, journal: journal, opt: opt, user: os.Geteuid() != 0,
		rec: &record{
			Version: journalVersion, Owners: p.Owners, DirTimes: opt.KeepDirTimes,
			Intent: intent{
				Version: journalVersion, ID: p.ID, Target: []byte(p.Target), Staging: stagingPrefix + p.ID,
				Dev: info.Dev, Ino: info.Ino, Mode: info.Mode, MTime: info.MTime,
			},
		},
	}, nil
}

func (s *writing) close() {
	if s.stage != nil {
		_ = s.stage.Close()
	}
	_ = s.root.Close()
}

// step marks the instant before an effect.
func (s *writing) step(name string) error {
	if err := failpoint.Err(name); err != nil {
		return err
	}
	if s.opt.Hook != nil {
		return s.opt.Hook(name)
	}
	return nil
}

// run is the transaction: stage, journal, exchange, commit, clean.
func (s *writing) run(ctx context.Context, p Plan, src Source, report *Report) error {
	if err := s.preparePlan(p, report); err != nil {
		return err
	}
	if err := s.prepare(ctx, p, src); err != nil {
		return err
	}
	if err := s.exchange(ctx); err != nil {
		return err
	}
	if err := s.commit(); err != nil {
		return err
	}
	report.Committed = true
	if err := s.step("apply.committed"); err != nil {
		return err
	}
	return s.finish()
}

// prepare stages everything new and makes it and the journal durable. Nothing
// of the target but the staging directory has changed when it returns.
func (s *writing) prepare(ctx context.Context, p Plan, src Source) error {
	if err := s.step("apply.intent"); err != nil {
		return err
	}
	s.began = true
	if err := writeJSON(s.journal, intentFile, s.rec.Intent); err != nil {
		return err
	}
	if err := s.step("apply.staging"); err != nil {
		return err
	}
	if s.user && s.rec.Intent.Mode&0o300 != 0o300 {
		if err := s.root.Chmod(".", s.rec.Intent.Mode|0o700); err != nil {
			return err
		}
	}
	if err := s.openStage(); err != nil {
		return err
	}
	if err := s.stageAll(ctx, p.Links, src); err != nil {
		return err
	}
	if err := s.tryMove(); err != nil {
		return err
	}
	if err := s.stage.SyncFS(); err != nil {
		return err
	}
	if err := s.step("apply.staged"); err != nil {
		return err
	}
	if err := writeJSON(s.journal, journalFile, s.rec); err != nil {
		return err
	}
	s.journalled = true
	return s.step("apply.journalled")
}

// tryMove finds out whether displaced things can be renamed into the journal.
func (s *writing) tryMove() error {
	if err := s.journal.Mkdir(oldDir, 0o700); err != nil {
		return err
	}
	const name = "probe"
	if err := s.stage.Mkdir(name, 0o700); err != nil {
		return err
	}
	err := s.stage.Rename(name, s.journal, oldDir+"/"+name, unix.RENAME_NOREPLACE)
	s.rec.Move = err == nil
	if s.rec.Move {
		return s.journal.Remove(oldDir + "/" + name)
	}
	return s.stage.Remove(name)
}

// exchange carries out every unit and every change of metadata.
func (s *writing) exchange(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	for _, u := range s.rec.Units {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.swap(u); err != nil {
			return err
		}
	}
	if err := s.restoreModes(); err != nil {
		return err
	}
	for _, m := range s.rec.Metas {
		op := s.rec.Ops[m].op
		if err := s.step("apply.meta"); err != nil {
			return err
		}
		now, err := ProbeMetadata(s.root, op.Path)
		if err != nil {
			return err
		}
		if op.Path == "." && now != nil { // the root is writable until the end
			now.Mode = s.rec.Intent.Mode
		}
		if !Equal(now, op.Old, s.rec.Owners) {
			return conflict(op.Path, "has changed"+differences(op.Old, now, thenAndNow, s.rec.Owners))
		}
		if err := s.change(op.Path, op.New); err != nil {
			return err
		}
	}
	return nil
}

// commit makes the changes durable, then records that they are final.
func (s *writing) commit() error {
	if !s.rec.Move {
		if err := s.copyOld(); err != nil {
			return err
		}
	}
	if err := s.step("apply.applied"); err != nil {
		return err
	}
	if err := s.root.SyncFS(); err != nil {
		return err
	}
	if err := s.step("apply.commit"); err != nil {
		return err
	}
	if err := fsx.WriteFile(s.journal, committedFile, nil, 0o600); err != nil {
		// It may be there all the same; it must not be after the roll-back.
		if gone := s.journal.Remove(committedFile); gone != nil && !absent(gone) {
			// It is unknown whether the changes are final, so neither way may be
			// taken now: recovery will look again.
			return errors.Join(ErrUnfinished, err, gone)
		}
		return err
	}
	return nil
}
