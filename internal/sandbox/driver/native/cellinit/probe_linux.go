package cellinit

import (
	"errors"
	"fmt"
	"os"
	"path"
)

// Names in a probe's lower directory.
const (
	ProbeDeleted  = "deleted"
	ProbeReplaced = "replaced"
	ProbeKept     = "kept"
)

// tryOverlay does, as the sandbox user, what runs do to their workspace.
func tryOverlay(dir string) error {
	if err := os.Remove(path.Join(dir, ProbeDeleted)); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	replaced := path.Join(dir, ProbeReplaced)
	if err := os.RemoveAll(replaced); err != nil {
		return fmt.Errorf("delete directory: %w", err)
	}
	if err := os.Mkdir(replaced, 0o755); err != nil {
		return fmt.Errorf("make directory over a whiteout: %w", err)
	}
	names, err := os.ReadDir(replaced)
	if err != nil {
		return fmt.Errorf("read new directory: %w", err)
	}
	if len(names) != 0 {
		return errors.New("a new directory shows the deleted one's files")
	}
	f, err := os.OpenFile(path.Join(dir, ProbeKept), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("copy up: %w", err)
	}
	_, err = f.WriteString("more\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("copy up: %w", err)
	}
	return nil
}
