package cell

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/redact"
)

// texts returns paths as JSON can carry them.
func texts(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, printable(p))
	}
	return out
}

// printable returns text that JSON can carry as it is.
func printable(s string) string { return quote.UTF8(s) }

// pathBase64 returns the encoded bytes of a path that JSON cannot carry as text, or
// "".
func pathBase64(path string) string {
	if utf8.ValidString(path) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(path))
}

// recordable returns argv as it may be recorded: without secrets, every byte as text.
func recordable(argv []string) []string {
	out := redact.Args(argv)
	for i, a := range out {
		if pathBase64(a) != "" {
			out[i] = quote.Arg(a)
		}
	}
	return out
}

func note(path, text string) api.PathNote {
	return api.PathNote{Path: path, PathBase64: pathBase64(path), Note: text}
}
