package native

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"sync"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"golang.org/x/sys/unix"
)

// listUnreadable lists what is below a directory of the host that its other users
// may not read: files without that right, directories that they cannot enter and
// list, and everything that is neither file, directory nor link. Other file
// systems below are not looked into. Paths are relative.
func listUnreadable(root string) ([]string, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("stat %s: %w", root, err)
	}
	s := &searcher{dev: st.Dev, slots: make(chan struct{}, 2*runtime.NumCPU())}
	s.dir(fd, "")
	s.wait.Wait()
	return s.found, s.err
}

// searcher walks a tree by descriptor, with some directories at once.
type searcher struct {
	dev   uint64
	slots chan struct{}
	wait  sync.WaitGroup

	mu    sync.Mutex
	found []string
	err   error
}

// dir looks at one directory and closes it.
func (s *searcher) dir(fd int, rel string) {
	defer unix.Close(fd)
	names, err := mountfd.Names(fd)
	if errors.Is(err, unix.ENOENT) {
		return // it was removed meanwhile
	}
	if err != nil {
		s.fail(rel, err)
		return
	}
	for _, name := range names {
		s.entry(fd, name, path.Join(rel, name))
	}
}

func (s *searcher) entry(dir int, name, rel string) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch kind := st.Mode & unix.S_IFMT; {
	case errors.Is(err, unix.ENOENT):
	case err != nil:
		s.fail(rel, err)
	case kind == unix.S_IFLNK, kind == unix.S_IFREG && st.Mode&0o004 != 0:
	case kind != unix.S_IFDIR || st.Mode&0o005 != 0o005:
		s.add(rel)
	case st.Dev == s.dev:
		s.descend(dir, name, rel)
	}
}

// descend looks at a directory, beside the others while there is a slot free.
func (s *searcher) descend(dir int, name, rel string) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return
	}
	if err != nil {
		s.fail(rel, err)
		return
	}
	select {
	case s.slots <- struct{}{}:
		s.wait.Go(func() {
			s.dir(fd, rel)
			<-s.slots
		})
	default:
		s.dir(fd, rel)
	}
}

func (s *searcher) add(rel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, rel)
}

func (s *searcher) fail(rel string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, fmt.Errorf("look at %s: %w", rel, err))
}
