package fsx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// IsDir reports whether a path leads to a directory.
func IsDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

// RealPath returns an absolute path with every symlink in it resolved, as far as it
// exists.
func RealPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not absolute", path)
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
	real, err := RealPath(path)
	if err != nil {
		return false, err
	}
	top, err := RealPath(dir)
	return err == nil && Within(real, top), err
}

// Within reports whether path is dir or below it.
func Within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// IsLink reports whether a path is a symlink.
func IsLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
