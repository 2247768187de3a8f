package token

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// Errors that callers distinguish.
var (
	// ErrRefused is about a secret that is not, or no longer, a token's. It does not
	// tell which, because the caller is not known.
	ErrRefused = errors.New("the token is not valid")
	// ErrInvalid is about a request or a file that cannot be a token's.
	ErrInvalid = errors.New("invalid token")
	// ErrDamaged is about a home whose file of tokens cannot be read.
	ErrDamaged = errors.New("the file of tokens is damaged")
	// ErrTaken is about a name that an active token has.
	ErrTaken = errors.New("an active token has this name")
	// ErrNone is about a token that does not exist.
	ErrNone = errors.New("no such token")
	// ErrFixed is about a token of the operator's file, which is never changed.
	ErrFixed = errors.New("the token is in the file of --tokens, which only its owner changes")
	// ErrFull is about a home with too many active tokens.
	ErrFull = errors.New("too many tokens")
)

const (
	// maxEntries bounds the tokens of a file.
	maxEntries = 4096
	// maxName bounds names, prefixes and the names of credentials.
	maxName = 63
	// maxPolicy bounds the text of a ceiling.
	maxPolicy = 1 << 20
	// maxCredentials bounds the credentials of one token.
	maxCredentials = 256
	// maxPatterns bounds the patterns of one token, and maxPattern the length of each.
	maxPatterns = 256
	maxPattern  = 1024
)

// document is a file of tokens: the home's, or the operator's.
type document struct {
	Version int     `json:"version"`
	Tokens  []entry `json:"tokens"`
}

// entry is a token in a file.
type entry struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// SHA256 is the hash of the secret. A secret has 256 random bits, so that its
	// hash needs no salt and no slow function.
	SHA256      string   `json:"sha256"`
	Scopes      []string `json:"scopes"`
	Cells       string   `json:"cells,omitempty"`
	Credentials []string `json:"credentials,omitempty"`
	// AllowControl are patterns of control files.
	AllowControl []string   `json:"allow_control,omitempty"`
	Quota        *api.Quota `json:"quota,omitempty"`
	// Policy is the text of the ceiling.
	Policy    string     `json:"policy,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	RevokedBy string     `json:"revoked_by,omitempty"`

	hash [sha256.Size]byte
}

// parse reads a file of tokens. An empty one has none.
func parse(data []byte) (document, error) {
	doc := document{Version: 1}
	if len(data) == 0 {
		return doc, nil
	}
	doc.Version = 0
	if err := decode(data, &doc); err != nil {
		return document{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if doc.Version != 1 {
		return document{}, fmt.Errorf("%w: version %d of the file is not known; want 1", ErrInvalid, doc.Version)
	}
	if len(doc.Tokens) > maxEntries {
		return document{}, fmt.Errorf("%w: more than %d tokens", ErrInvalid, maxEntries)
	}
	ids, hashes := map[string]bool{}, map[string]bool{}
	for i := range doc.Tokens {
		e := &doc.Tokens[i]
		if err := e.check(); err != nil {
			return document{}, fmt.Errorf("tokens[%d]: %w", i, err)
		}
		if ids[e.ID] || hashes[e.SHA256] {
			return document{}, fmt.Errorf("%w: tokens[%d]: its id or hash is in the file twice", ErrInvalid, i)
		}
		ids[e.ID], hashes[e.SHA256] = true, true
	}
	return doc, nil
}

// text returns the document as a file.
func (d document) text() ([]byte, error) {
	data, err := json.MarshalIndent(d, "", "  ")
	return append(data, '\n'), err
}

// check refuses an entry with a value that no token has, and reads its hash.
func (e *entry) check() error {
	if _, err := parseScopes(e.Scopes); err != nil {
		return err
	}
	sum, err := hex.DecodeString(e.SHA256)
	switch {
	case err != nil || len(sum) != sha256.Size || strings.ToLower(e.SHA256) != e.SHA256:
		return fmt.Errorf("%w: sha256 is not a hash in hexadecimal", ErrInvalid)
	case !strings.HasPrefix(e.ID, idPrefix) || !wordOK(e.ID):
		return fmt.Errorf("%w: %q is not an id; one begins with %s", ErrInvalid, e.ID, idPrefix)
	case !wordOK(e.Name):
		return fmt.Errorf("%w: %q is not a name: letters, digits, . _ - @, at most %d of them, a letter or digit first", ErrInvalid, e.Name, maxName)
	case e.Cells != "" && !wordOK(e.Cells):
		return fmt.Errorf("%w: %q is not the beginning of a cell's name", ErrInvalid, e.Cells)
	case len(e.Credentials) > maxCredentials || slices.ContainsFunc(e.Credentials, func(c string) bool { return !credentialOK(c) }):
		return fmt.Errorf("%w: a credential is named by letters, digits, . _ -, at most %d of them; a token has at most %d", ErrInvalid, maxName, maxCredentials)
	case len(e.AllowControl) > maxPatterns || slices.ContainsFunc(e.AllowControl, func(p string) bool { return !patternOK(p) }):
		return fmt.Errorf("%w: a pattern of control files has at most %d bytes and no ! before it; a token has at most %d", ErrInvalid, maxPattern, maxPatterns)
	case len(e.Policy) > maxPolicy:
		return fmt.Errorf("%w: the policy is larger than %d bytes", ErrInvalid, maxPolicy)
	case len(e.CreatedBy) > 1024 || len(e.RevokedBy) > 1024:
		return fmt.Errorf("%w: the name of a person is too long", ErrInvalid)
	}
	copy(e.hash[:], sum)
	if e.Quota == nil {
		return nil
	}
	return checkQuota(*e.Quota)
}

const (
	letters  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	idPrefix = "tok_"
)

func wordOK(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s[:1], letters) == "" && strings.Trim(s, letters+"._-@") == ""
}

// credentialOK is the rule for the names of credentials in policies.
func credentialOK(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s[:1], letters+"_") == "" && strings.Trim(s, letters+"._-") == ""
}

// patternOK refuses patterns that take others back: each pattern of a token allows.
func patternOK(s string) bool {
	return s != "" && len(s) <= maxPattern && s[0] != '!' && !strings.ContainsAny(s, "\x00\n")
}

// The states of a token.
const (
	stateActive  = "active"
	stateExpired = "expired"
	stateRevoked = "revoked"
)

func (e *entry) state(now time.Time) string {
	switch {
	case e.RevokedAt != nil:
		return stateRevoked
	case e.ExpiresAt != nil && !now.Before(*e.ExpiresAt):
		return stateExpired
	}
	return stateActive
}

func (e *entry) grant() Grant {
	scopes, _ := parseScopes(e.Scopes) // check has found them right
	g := Grant{ID: e.ID, Name: e.Name, Scopes: scopes, Cells: e.Cells, Credentials: slices.Clone(e.Credentials), AllowControl: slices.Clone(e.AllowControl)}
	if e.Quota != nil {
		g.Quota = *e.Quota
	}
	if e.Policy != "" {
		g.Ceiling = &api.PolicyFile{Name: api.Text("the ceiling of token " + e.Name), Text: []byte(e.Policy), Grants: true}
	}
	return g
}

func (e *entry) info(now time.Time) api.TokenInfo {
	info := api.TokenInfo{
		ID: e.ID, Name: e.Name, State: e.state(now), Scopes: e.Scopes, Cells: e.Cells, Credentials: append([]string{}, e.Credentials...),
		AllowControl: append([]string{}, e.AllowControl...), Quota: e.Quota, CreatedAt: e.CreatedAt, CreatedBy: e.CreatedBy, ExpiresAt: e.ExpiresAt, RevokedAt: e.RevokedAt, RevokedBy: e.RevokedBy,
	}
	if e.Policy != "" {
		sum := sha256.Sum256([]byte(e.Policy))
		info.PolicyHash = hex.EncodeToString(sum[:])
	}
	return info
}
