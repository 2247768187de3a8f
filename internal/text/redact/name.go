// Package redact finds things that look like secrets in command lines,
// environments and output, so that receipts and stored logs do not hold them.
//
// It works by rules on text alone: it does not find a secret of unknown form
// under a harmless name. It knows nothing about receipts, logs or cells.
package redact

import (
	"slices"
	"strings"
	"unicode"
)

// secretParts make a name secret wherever they stand in it, with the underscores
// taken out: API_KEY, apikey and x-api-key are one.
var secretParts = []string{
	"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL",
	"APIKEY", "ACCESSKEY", "PRIVATEKEY", "SIGNINGKEY", "ENCRYPTIONKEY", "MASTERKEY",
	"AUTHORIZATION", "COOKIE", "CONNECTIONSTRING", "SESSID",
}

// secretWords make a name secret when they are one of its words.
var secretWords = []string{
	"TOKEN", "TOKENS", "AUTH", "PASS", "PWD", "PAT",
	"SESSION", "JWT", "BEARER", "CRED", "CREDS", "OTP", "DSN",
}

// placeWords end the names of variables whose value is a place, a switch or a
// number, not the secret itself.
var placeWords = []string{
	"FILE", "PATH", "DIR", "SOCK", "SOCKET", "HOME",
	"ENABLED", "DISABLED", "TIMEOUT", "TTL", "EXPIRY", "LENGTH",
}

// harmless are well-known names that the rules would take for secret.
var harmless = []string{
	"PWD", "OLDPWD", "XAUTHORITY", "SESSION_MANAGER", "DESKTOP_SESSION",
	"GDMSESSION", "TERM_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SESSION_BUS_PID",
	"GNOME_DESKTOP_SESSION_ID", "KDE_FULL_SESSION", "KDE_SESSION_UID", "KDE_SESSION_VERSION",
}

// SecretName reports whether the value of this name counts as a secret. The name
// is that of an environment variable, an option without its dashes, a header or a
// key of a document. When in doubt the answer is yes.
func SecretName(name string) bool {
	words := splitWords(name)
	if len(words) == 0 {
		return false
	}
	joined := strings.Join(words, "_")
	last := words[len(words)-1]
	switch {
	case slices.Contains(harmless, joined),
		strings.HasPrefix(joined, "XDG_SESSION"),
		words[0] == "MAX" && last == "TOKENS",
		len(words) > 1 && slices.Contains(placeWords, last):
		return false
	case last == "KEY" && len(words) > 1, last == "KEYS" && len(words) > 1:
		return words[0] != "PUBLIC" && words[len(words)-2] != "PUBLIC"
	}
	for _, w := range words {
		if slices.Contains(secretWords, w) || strings.HasSuffix(w, "TOKEN") {
			return true
		}
	}
	squeezed := strings.Join(words, "")
	for _, p := range secretParts {
		if strings.Contains(squeezed, p) {
			return true
		}
	}
	return false
}

// splitWords cuts a name into its words, in capitals: at everything that is neither
// letter nor digit, and between a small letter and a capital.
func splitWords(name string) []string {
	var b strings.Builder
	small := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			b.WriteByte(' ')
			small = false
			continue
		case small && unicode.IsUpper(r):
			b.WriteByte(' ')
		}
		small = unicode.IsLower(r) || unicode.IsDigit(r)
		b.WriteRune(unicode.ToUpper(r))
	}
	return strings.Fields(b.String())
}

// Secret is a value that must not be stored.
type Secret struct {
	Name  string
	Value string
}

// Env splits an environment into the names of all its variables, in order, and the
// values that must not be stored, found by name or by form. A variable without "="
// is a name.
func Env(kv []string) (names []string, secrets []Secret) {
	for _, s := range kv {
		name, value, _ := strings.Cut(s, "=")
		names = append(names, name)
		switch {
		case trivial(value):
		case SecretName(name):
			secrets = append(secrets, Secret{name, value})
		default:
			for _, v := range shapedSecrets(value) {
				secrets = append(secrets, Secret{name, v})
			}
		}
	}
	return names, secrets
}

// trivial reports whether a value is a switch or a small number. Such a value is
// no secret under any name, and would be replaced all over a log.
func trivial(v string) bool {
	switch strings.ToLower(v) {
	case "", "true", "false", "none", "null", "auto", "default", "enabled", "disabled", "basic", "required", "optional":
		return true
	}
	return len(v) < 6 && strings.Trim(v, "0123456789") == ""
}
