package cell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/quote"
)

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

// realPath returns an absolute path with every symlink in it resolved, as far as it
// exists.
func realPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is not absolute", quote.Path(path))
	}
	rest := ""
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !os.IsNotExist(err) || dir == "/" {
			return "", err
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// Inside reports whether path is dir or below it, wherever links in them lead.
func Inside(path, dir string) (bool, error) {
	real, err := realPath(path)
	if err != nil {
		return false, err
	}
	top, err := realPath(dir)
	return err == nil && within(real, top), err
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
