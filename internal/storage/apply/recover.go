package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// Recover ends an apply that a crash interrupted at any instant: it is taken
// back, or, if it was committed, brought to its end. It leaves nothing behind in
// the target. An apply that ended before is left alone. A ConflictError after a
// roll-back is said once: it names what other programs changed since the crash,
// and no later call repeats it. ErrTarget says that the directory has to be put
// back at its place first.
func Recover(ctx context.Context, target string, journal *fsx.Dir) (rolledBack bool, err error) {
	return recoverWith(ctx, target, journal, Options{})
}

func recoverWith(ctx context.Context, target string, journal *fsx.Dir, opt Options) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	for name, undone := range map[string]bool{finishedFile: false, undoneFile: true} {
		if ended, err := has(journal, name); ended || err != nil {
			return undone, err
		}
	}
	var in intent
	err := readJSON(journal, intentFile, &in.Version, &in)
	if errors.Is(err, fs.ErrNotExist) { // it never touched the target
		return true, nil
	}
	if err != nil {
		return false, err
	}
	s, committed, err := reopen(ctx, target, journal, in, opt)
	if err != nil {
		return false, fmt.Errorf("recover the apply to %s: %w", target, err)
	}
	defer s.close()
	if committed {
		err = s.finish()
	} else {
		err = s.rollBack()
	}
	if err != nil {
		err = fmt.Errorf("recover the apply to %s: %w", target, err)
	}
	return !committed, err
}

// reopen makes the session that the crash ended.
func reopen(ctx context.Context, target string, journal *fsx.Dir, in intent, opt Options) (s *writing, committed bool, err error) {
	if fsx.CheckPath(in.Staging) != nil || in.Staging != stagingPrefix+in.ID {
		return nil, false, fmt.Errorf("%w: staging directory %q", errJournal, in.Staging)
	}
	rec := &record{Intent: in}
	journalled, err := has(journal, journalFile)
	if err != nil {
		return nil, false, err
	}
	if journalled {
		if rec, err = readRecord(journal); err != nil {
			return nil, false, err
		}
		if committed, err = has(journal, committedFile); err != nil {
			return nil, false, err
		}
	}
	root, err := fsx.OpenRoot(target)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrTarget, err)
	}
	info, err := root.Lstat(".")
	if err == nil && (info.Ino != in.Ino || !info.IsDir()) {
		err = fmt.Errorf("%w: another one is in its place", ErrTarget)
	}
	if err != nil {
		_ = root.Close()
		return nil, false, err
	}
	return &writing{
		ctx: ctx, root: root, journal: journal, rec: rec, opt: opt, user: os.Geteuid() != 0,
		began: true, journalled: journalled,
	}, committed, nil
}
