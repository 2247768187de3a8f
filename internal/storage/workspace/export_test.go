package workspace

import (
	"context"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// For the tests in package workspace_test.

// What tests compare with.
const (
	Rereads          = rereads
	StablePasses     = stablePasses
	GenerationMarker = generationMarker
	HiddenRule       = hiddenRule
	MaxRecord        = maxRecord
)

// DiskUsage is the disk space of a directory.
func DiskUsage(ctx context.Context, d *fsx.Dir) (int64, error) { return diskUsage(ctx, d) }

// Unsynced returns options that leave out making things durable, which also waits for the
// writes of other programs.
func (o Options) Unsynced(hook func(step string) error) Options {
	o.unsynced, o.hook = true, hook
	return o
}

// Crashing returns options that make things durable, with a hook.
func (o Options) Crashing(hook func(step string) error) Options {
	o.hook = hook
	return o
}

// Hook returns what is called at every step at which a crash matters.
func (s *Store) Hook() *func(step string) error { return &s.opt.hook }

// CheckAreas refuses areas of a cell that are not valid.
func (s *Store) CheckAreas(c Cell) error {
	b, err := s.backend(c.Backend)
	if err != nil {
		return err
	}
	return checkAreas(b, c)
}

// Held returns how many trees that are not stored and how many manifests are held.
func (s *Store) Held() (trees, manifests int) { return len(s.inMemory), len(s.packs.files) }

// Dir returns the host path of the copy.
func (c *Capture) Dir() string { return c.w.Dir() }
