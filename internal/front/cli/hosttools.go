package cli

import (
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
)

// writer knows which directories of the host commands in cells can have written.
type writer interface{ WrittenDirs() ([]string, error) }

// hostTools returns the finder of the programs of this host that a command starts.
func (s *frame) hostTools() hosttool.Finder { return hosttool.InEnv(s.host().Env, s.writtenDirs) }

// writtenDirs returns the directories that no program of the host is started from: what
// cells of this home can have written, and the directory that a new cell would be made
// from. It asks the engine that is open. A home that is not open yet is closed
// again: it cannot be opened for writing beside a connection that reads.
func (s *frame) writtenDirs() (dirs []string, err error) {
	if w, ok := s.opened.(writer); ok {
		dirs, err = w.WrittenDirs()
	} else {
		dirs, err = s.writtenInHome()
	}
	if dir := s.madeFrom(); dir != "" {
		dirs = append(dirs, dir)
	}
	return dirs, err
}

func (s *frame) writtenInHome() ([]string, error) {
	e, release, err := s.open(s.home, Read, s.caller())
	if err != nil {
		return nil, err
	}
	defer func() { _ = release() }() // nothing was written
	w, ok := e.(writer)
	if !ok {
		return nil, nil // an engine of a test
	}
	return w.WrittenDirs()
}

// madeFrom returns the working directory, unless it holds more than one project: the
// user's home or what is above it.
func (s *frame) madeFrom() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	if home, err := os.UserHomeDir(); dir == "/" || err == nil && fsx.Within(home, dir) {
		return ""
	}
	return dir
}
