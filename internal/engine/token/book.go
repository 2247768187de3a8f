package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Home keeps the file of tokens of a home.
type Home interface {
	// TokensInfo returns the present file, nil if there is none. It is called at
	// every check, so it must be cheap.
	TokensInfo() (os.FileInfo, error)
	// ReadTokens returns the file's content, and the file that it was read from.
	ReadTokens() ([]byte, os.FileInfo, error)
	// ChangeTokens replaces the content by what fn makes of it. Changes happen one
	// after the other, also those of other processes. A change is a new file.
	ChangeTokens(fn func(old []byte) ([]byte, error)) error
}

// Book keeps the tokens of a home, and those of a file of the operator's. It is safe
// for concurrent use. Changes by other processes are seen at the next call.
type Book struct {
	home Home
	now  func() time.Time

	mu     sync.Mutex
	loaded bool
	file   os.FileInfo // that own was read from; nil if there was none
	racy   bool        // the file could change again without a trace
	own    *index
	fixed  *index
}

// NewBook returns the book of a home. A nil home has no tokens, and takes none.
func NewBook(home Home, now func() time.Time) *Book {
	return &Book{home: home, now: now, own: newIndex(nil), fixed: newIndex(nil)}
}

// index finds tokens by the hash of their secret and by their id.
type index struct {
	tokens []entry
	byHash map[[sha256.Size]byte]*entry
	byID   map[string]*entry
}

func newIndex(tokens []entry) *index {
	x := &index{tokens: tokens, byHash: map[[sha256.Size]byte]*entry{}, byID: map[string]*entry{}}
	for i := range tokens {
		x.byHash[tokens[i].hash], x.byID[tokens[i].ID] = &tokens[i], &tokens[i]
	}
	return x
}

// UseFile reads the operator's file of tokens, and uses it from now on. After an
// error the book is as it was.
func (b *Book) UseFile(path string) error {
	data, err := readPrivate(path)
	if err != nil {
		return err
	}
	doc, err := parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", quote.Path(path), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fixed = newIndex(doc.Tokens)
	return nil
}

// Check returns what a secret allows. The error is ErrRefused for every secret that
// is not that of an active token.
func (b *Book) Check(secret string) (Grant, error) {
	if len(secret) != len(secretPrefix)+secretLen || !strings.HasPrefix(secret, secretPrefix) {
		return Grant{}, ErrRefused
	}
	hash := sha256.Sum256([]byte(secret))
	return b.find(func(x *index) *entry {
		// The place of a hash in the map reveals nothing about a secret, since no caller
		// can choose the hash of one.
		e := x.byHash[hash]
		if e == nil || subtle.ConstantTimeCompare(e.hash[:], hash[:]) != 1 {
			return nil
		}
		return e
	})
}

// Current returns what the token with an id allows now, or ErrRefused if it was
// revoked or has expired. It is for requests that go on for long.
func (b *Book) Current(id string) (Grant, error) {
	return b.find(func(x *index) *entry { return x.byID[id] })
}

func (b *Book) find(in func(*index) *entry) (Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.reload(); err != nil {
		return Grant{}, err
	}
	for _, x := range []*index{b.fixed, b.own} {
		if e := in(x); e != nil && e.state(b.now()) == stateActive {
			return e.grant(), nil
		}
	}
	return Grant{}, ErrRefused
}

// racyFor is the time in which a file could be replaced by another one that has the
// same number, size and time: the clock of a file system is coarse.
const racyFor = time.Second

// reload reads the home's file again if it may have changed. The caller holds mu.
func (b *Book) reload() error {
	if b.home == nil {
		return nil
	}
	file, err := b.home.TokensInfo()
	if err != nil {
		return err
	}
	if b.loaded && !b.racy && sameFile(file, b.file) {
		return nil
	}
	data, file, err := b.home.ReadTokens()
	if err != nil {
		return err
	}
	doc, err := parse(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	b.own, b.file, b.loaded = newIndex(doc.Tokens), file, true
	b.racy = file != nil && b.now().Sub(file.ModTime()) < racyFor
	return nil
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

const (
	// secretPrefix begins every secret, so that scanners find it.
	secretPrefix = "fct_"
	// secretLen is the length of 32 random bytes in base64.
	secretLen = 43
)

// Make returns a new token that is nowhere kept, as a file for UseFile. by is the
// name of its maker.
func (b *Book) Make(r api.TokenRequest, by string) (*api.TokenCreated, error) {
	e, secret, err := b.newEntry(r, by)
	if err != nil {
		return nil, err
	}
	text, err := document{Version: 1, Tokens: []entry{e}}.text()
	return &api.TokenCreated{TokenInfo: e.info(b.now()), Token: secret, Entry: string(text)}, err
}

// Create makes a token and keeps it in the home.
func (b *Book) Create(r api.TokenRequest, by string) (*api.TokenCreated, error) {
	e, secret, err := b.newEntry(r, by)
	if err != nil {
		return nil, err
	}
	err = b.change(func(doc *document) error {
		now := b.now()
		if slices.ContainsFunc(doc.Tokens, func(o entry) bool { return o.Name == e.Name && o.state(now) == stateActive }) {
			return fmt.Errorf("%w: %s", ErrTaken, e.Name)
		}
		doc.Tokens = append(doc.Tokens, e)
		return doc.dropEnded(now)
	})
	if err != nil {
		return nil, err
	}
	return &api.TokenCreated{TokenInfo: e.info(b.now()), Token: secret}, nil
}

// dropEnded drops the oldest tokens that have ended while there are too many.
func (d *document) dropEnded(now time.Time) error {
	for len(d.Tokens) > maxEntries {
		i := slices.IndexFunc(d.Tokens, func(e entry) bool { return e.state(now) != stateActive })
		if i < 0 {
			return fmt.Errorf("%w: a home has at most %d", ErrFull, maxEntries)
		}
		d.Tokens = slices.Delete(d.Tokens, i, i+1)
	}
	return nil
}

func (b *Book) newEntry(r api.TokenRequest, by string) (entry, string, error) {
	scopes, err := parseScopes(r.Scopes)
	if err != nil {
		return entry{}, "", err
	}
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	secret := secretPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	sum := sha256.Sum256([]byte(secret))
	now := b.now().UTC()
	e := entry{
		ID: idPrefix + strings.ToLower(rand.Text()), Name: r.Name, SHA256: hex.EncodeToString(sum[:]), Cells: r.Cells, Quota: r.Quota,
		CreatedAt: now, CreatedBy: by,
	}
	for _, s := range scopes {
		e.Scopes = append(e.Scopes, string(s))
	}
	e.AllowControl = slices.Compact(slices.Sorted(slices.Values(r.AllowControl)))
	e.Credentials = slices.Compact(slices.Sorted(slices.Values(r.Credentials)))
	if r.Policy != nil {
		e.Policy = string(r.Policy.Text)
	}
	if r.Expires < 0 {
		return entry{}, "", fmt.Errorf("%w: it would have expired already", ErrInvalid)
	}
	if r.Expires > 0 {
		end := now.Add(r.Expires)
		e.ExpiresAt = &end
	}
	return e, secret, e.check()
}

// List returns the tokens of the operator's file and of the home, also those that
// have ended, in the order of their making.
func (b *Book) List() ([]api.TokenInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.reload(); err != nil {
		return nil, err
	}
	out := []api.TokenInfo{}
	for _, x := range []*index{b.fixed, b.own} {
		for i := range x.tokens {
			out = append(out, x.tokens[i].info(b.now()))
		}
	}
	return out, nil
}

// Revoke ends a token: the active one with a name, or the one with an id. Revoking
// it again changes nothing.
func (b *Book) Revoke(ref, by string) (api.TokenInfo, error) {
	if b.isFixed(ref) {
		return api.TokenInfo{}, fmt.Errorf("%w: %s", ErrFixed, ref)
	}
	var info api.TokenInfo
	err := b.change(func(doc *document) error {
		now := b.now().UTC()
		i := slices.IndexFunc(doc.Tokens, func(e entry) bool { return e.Name == ref && e.state(now) == stateActive })
		if i < 0 {
			i = slices.IndexFunc(doc.Tokens, func(e entry) bool { return e.ID == ref })
		}
		if i < 0 {
			return fmt.Errorf("%w: %s", ErrNone, ref)
		}
		if e := &doc.Tokens[i]; e.RevokedAt == nil {
			e.RevokedAt, e.RevokedBy = &now, by
		}
		info = doc.Tokens[i].info(now)
		return nil
	})
	return info, err
}

// isFixed reports whether a name or id is that of a token of the operator's file,
// and of none of the home.
func (b *Book) isFixed(ref string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	named := func(e entry) bool { return e.Name == ref || e.ID == ref }
	return slices.ContainsFunc(b.fixed.tokens, named) && (b.reload() != nil || !slices.ContainsFunc(b.own.tokens, named))
}

func (b *Book) change(fn func(*document) error) error {
	if b.home == nil {
		return fmt.Errorf("%w: there is no home", ErrNone)
	}
	return b.home.ChangeTokens(func(old []byte) ([]byte, error) {
		doc, err := parse(old)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err := fn(&doc); err != nil {
			return nil, err
		}
		return doc.text()
	})
}
