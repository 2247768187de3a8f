package native

import (
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"golang.org/x/sys/unix"
)

// pack puts the contents of files into a descriptor, each once, and the names
// into the plan: trust stores are large, and a cell has several names for one.
func (p *hostPlan) pack() (int, error) {
	fd, err := unix.MemfdCreate("forkcell-files", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("memory file: %w", err)
	}
	out := os.NewFile(uintptr(fd), "files")
	defer out.Close()
	// Files with the same contents share their memory, so their addresses are
	// compared: comparing the contents would take as long as copying them.
	type memory struct {
		first *byte
		size  int
	}
	at, end := map[memory]int64{}, int64(0)
	for _, f := range p.files {
		m := memory{size: len(f.Data)}
		if m.size > 0 {
			m.first = &f.Data[0]
		}
		offset, known := at[m]
		if !known {
			if _, err := out.Write(f.Data); err != nil {
				return -1, fmt.Errorf("memory file: %w", err)
			}
			offset = end
			at[m], end = offset, end+int64(len(f.Data))
		}
		p.Files = append(p.Files, protocol.File{Name: f.Name, Offset: offset, Size: int64(len(f.Data))})
	}
	kept, err := unix.FcntlInt(out.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("memory file: %w", err)
	}
	return kept, nil
}
