package cell

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/quote"
)

// checkName accepts [a-z0-9][a-z0-9._-]{0,62}.
func checkName(what, name string) error {
	ok := name != "" && len(name) <= 63
	for i := 0; ok && i < len(name); i++ {
		ch := name[i]
		plain := ch >= 'a' && ch <= 'z' || ch >= '0' && ch <= '9'
		ok = plain || i > 0 && (ch == '.' || ch == '_' || ch == '-')
	}
	if !ok {
		return usage("use 1 to 63 of a-z 0-9 . _ - and begin with a letter or digit", "bad %s name %s", what, quote.Arg(name))
	}
	return nil
}

// realPath is the path with every symlink in it resolved, as far as it exists.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := abs; ; dir = filepath.Dir(dir) {
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

// within tells whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// apart refuses a path that the home is in, or that is in the home: a cell must
// never reach the keys, and an import must never import itself.
func (e *Engine) apart(flag, path string) error {
	real, err := realPath(path)
	if err != nil {
		return usage("", "%s %s: %v", flag, quote.Path(path), err)
	}
	home, err := realPath(e.home)
	if err != nil {
		return err
	}
	if within(real, home) || within(home, real) {
		return refused("overlap", "choose another directory, or another --home",
			"%s %s overlaps the state directory %s", flag, quote.Path(path), quote.Path(e.home))
	}
	return nil
}

// pathBase64 is set for paths that JSON cannot carry as text.
func pathBase64(path string) string {
	if utf8.ValidString(path) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(path))
}

func note(path, text string) PathNote {
	return PathNote{Path: path, PathBase64: pathBase64(path), Note: text}
}
