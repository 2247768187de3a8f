package redact

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Mark replaces a secret.
const Mark = "[redacted]"

// pattern is an expression that is compiled at first use, and used only for text
// that may match it: compiling all of them would slow every start of the program.
type pattern struct {
	parts []string // a text that matches has one of them
	get   func() *regexp.Regexp
}

func newPattern(expression string, parts ...string) pattern {
	return pattern{parts, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

func (p pattern) may(s string) bool {
	return slices.ContainsFunc(p.parts, func(part string) bool { return strings.Contains(s, part) })
}

// tokens are the forms of well-known secrets: a prefix, and what follows it.
var tokens = []struct{ starts, rest string }{
	{"ghp_ gho_ ghu_ ghs_ ghr_", `[A-Za-z0-9]{20,}`},
	{"github_pat_", `[A-Za-z0-9_]{20,}`},
	{"glpat- gldt- glrt- glcbt- glptt- glft- glsoat-", `[A-Za-z0-9_-]{16,}`},
	{"sk-", `[A-Za-z0-9_-]{16,}`},
	{"sk_live_ sk_test_ rk_live_ rk_test_", `[A-Za-z0-9]{16,}`},
	{"xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xapp-", `[A-Za-z0-9-]{8,}`},
	{"AKIA ASIA", `[A-Z0-9]{16}\b`},
	{"AIza", `[A-Za-z0-9_-]{35}`},
	{"ya29.", `[A-Za-z0-9_-]{16,}`},
	{"npm_", `[A-Za-z0-9]{30,}`},
	{"pypi-", `[A-Za-z0-9_-]{30,}`},
	{"hf_", `[A-Za-z0-9]{20,}`},
	{"dop_v1_", `[a-f0-9]{32,}`},
	{"AGE-SECRET-KEY-1", `[A-Z0-9]{20,}`},
	{"eyJ", `[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`},
}

// newShape returns the pattern of private keys and of the tokens.
func newShape() pattern {
	parts := []string{"PRIVATE KEY"}
	for _, t := range tokens {
		parts = append(parts, strings.Fields(t.starts)...)
	}
	return pattern{parts, sync.OnceValue(func() *regexp.Regexp {
		all := []string{`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`}
		for _, t := range tokens {
			starts := strings.ReplaceAll(regexp.QuoteMeta(t.starts), " ", "|")
			all = append(all, `\b(?:`+starts+`)`+t.rest)
		}
		return regexp.MustCompile(strings.Join(all, "|"))
	})}
}

var (
	shape = newShape()
	// inURL is scheme://user:password@.
	inURL = newPattern(`([A-Za-z][A-Za-z0-9+.-]*://[^/\s:@"']*):([^/\s"']+)@`, "://")
	// assign is name=, field is name: and "name":.
	assign = newPattern(`([A-Za-z_][A-Za-z0-9_.-]*)=`, "=")
	field  = newPattern(`([A-Za-z_][A-Za-z0-9_-]*)["']?\s*:`, ":")
	// bearer is Bearer value and Basic value, in whatever case.
	bearer = newPattern(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}`, " ", "\t", "\n", "\r", "\f")
)

// replace replaces every match by text, in which $1 is the first group.
func (p pattern) replace(s, text string) string {
	if !p.may(s) {
		return s
	}
	return p.get().ReplaceAllString(s, text)
}

// Args returns argv with everything that looks like a secret replaced by
// "[redacted]". The result has as many elements.
func Args(argv []string) []string {
	out := make([]string, len(argv))
	next := whole // the role that the argument before announces
	for i, a := range argv {
		switch {
		case next == value && !isLongOption(a):
			out[i], next = Mark, whole
			continue
		case next == login && !isLongOption(a):
			out[i], next = redactLogin(a), whole
			continue
		}
		out[i] = arg(a, next == script)
		next = announces(a)
	}
	dashP(out)
	return out
}

type role int

const (
	whole  role = iota // none
	value              // the value of a secret option
	login              // user:password
	script             // shell code
)

// announces returns the role of the argument after a.
func announces(a string) role {
	name := strings.TrimLeft(a, "-")
	dashes := len(a) - len(name)
	switch {
	case dashes == 0 || name == "" || strings.Contains(a, "="):
		return whole
	case a == "-u" || a == "--user" || a == "--proxy-user":
		return login
	case dashes == 1 && name[len(name)-1] == 'c' && len(name) <= 4:
		return script
	case len(name) > 1 && SecretName(name):
		return value
	}
	return whole
}

func isLongOption(a string) bool { return len(a) > 2 && strings.HasPrefix(a, "--") }

// redactLogin keeps the user of user:password.
func redactLogin(a string) string {
	user, _, ok := strings.Cut(a, ":")
	if !ok {
		return arg(a, false)
	}
	return arg(user, false) + ":" + Mark
}

// arg redacts one argument.
func arg(a string, isScript bool) string {
	if name, v, ok := strings.Cut(a, "="); ok && !isScript && v != "" && isName(name) && SecretName(name) {
		return name + "=" + Mark
	}
	return text(a)
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
}

// text redacts the parts of a longer text that look secret.
func text(s string) string {
	s = shape.replace(s, Mark)
	s = inURL.replace(s, "${1}:"+Mark+"@")
	s = redactNamed(assign, s, assignedLength)
	s = redactNamed(field, s, fieldLength)
	return bearer.replace(s, "${1} "+Mark)
}

// redactNamed replaces the values that follow secret names. The expression ends where
// the value starts; its first group is the name; length returns the length of the
// value in the rest. The search continues right after a harmless name, because a
// secret may be inside its value, and stays linear.
func redactNamed(p pattern, s string, length func(name, rest string) int) string {
	if !p.may(s) {
		return s
	}
	var b strings.Builder
	for {
		loc := p.get().FindStringSubmatchIndex(s)
		if loc == nil {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:loc[1]])
		name, rest := s[loc[2]:loc[3]], s[loc[1]:]
		if SecretName(name) {
			n := length(name, rest)
			b.WriteString(maskValue(rest[:n]))
			rest = rest[n:]
		}
		s = rest
	}
}

// assignedLength returns the length of the value in name=value: a quoted text, or
// everything up to where a shell or a query ends it.
func assignedLength(_, rest string) int {
	if n := quotedLength(rest); n > 0 {
		return n
	}
	return until(rest, " \t\r\n;&|\"'`")
}

// fieldLength returns the length of the value in name: value, with the blanks before
// it. Without a blank or a quote only well-known headers have one: the others are
// addresses, such as auth:8080.
func fieldLength(name, rest string) int {
	blanks := len(rest) - len(strings.TrimLeft(rest, " \t"))
	if n := quotedLength(rest[blanks:]); n > 0 {
		return blanks + n
	}
	if blanks == 0 && !isHeader(name) {
		return 0
	}
	return blanks + until(rest[blanks:], "\n\"'")
}

// quotedLength returns the length of the quoted text that s starts with, else 0. The
// closing quote may be missing.
func quotedLength(s string) int {
	if s == "" || (s[0] != '"' && s[0] != '\'') {
		return 0
	}
	if i := strings.IndexByte(s[1:], s[0]); i >= 0 {
		return i + 2
	}
	return len(s)
}

func until(s, chars string) int {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return i
	}
	return len(s)
}

// isHeader reports whether a header is recognised without a blank after the colon.
func isHeader(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token", "private-token":
		return true
	}
	return false
}

// maskValue replaces a value but keeps the blanks and quotes around it.
func maskValue(v string) string {
	blanks := v[:len(v)-len(strings.TrimLeft(v, " \t\r\n"))]
	v = v[len(blanks):]
	if v == "" {
		return blanks
	}
	if q := v[0]; q == '"' || q == '\'' {
		if len(v) > 1 && v[len(v)-1] == q {
			return blanks + string(q) + Mark + string(q)
		}
		return blanks + string(q) + Mark
	}
	return blanks + Mark
}

// dashP redacts the password of clients that take it in the same argument as -p.
func dashP(argv []string) {
	if len(argv) == 0 {
		return
	}
	switch path.Base(argv[0]) {
	case "mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "sshpass":
	default:
		return
	}
	for i, a := range argv[1:] {
		if len(a) > 2 && strings.HasPrefix(a, "-p") {
			argv[i+1] = "-p" + Mark
		}
	}
}

// shapedSecrets returns the parts of a value that are secrets by their shape.
func shapedSecrets(v string) []string {
	var found []string
	if shape.may(v) {
		found = shape.get().FindAllString(v, -1)
	}
	if inURL.may(v) {
		for _, m := range inURL.get().FindAllStringSubmatch(v, -1) {
			found = append(found, m[2])
		}
	}
	return found
}
