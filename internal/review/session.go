package review

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	// sessionTime is how long a browser stays signed in, codeTime how long a code can
	// be used.
	sessionTime = 12 * time.Hour
	codeTime    = 5 * time.Minute
	// maxSessions and maxCodes bound what is remembered.
	maxSessions = 1000
	maxCodes    = 100
	// cookieName is the name of the cookie, which browsers send to the pages only.
	cookieName = "forkcell_session"
	sitePath   = "/ui"
)

// secretHash is the hash of a code or of a cookie. Secrets themselves are not kept.
type secretHash [sha256.Size]byte

func hashOf(secret string) secretHash { return sha256.Sum256([]byte(secret)) }

// session is a browser that has signed in.
type session struct {
	visitor Visitor
	// form is the secret that forms of this session carry.
	form string
	ends time.Time
}

// expiring is a set of secrets, each with an end. It is bounded: the one that ends
// first makes room.
type expiring[T any] struct {
	limit int
	items map[secretHash]T
	ends  func(T) time.Time
}

// add keeps an item under a new secret, and returns the secret.
func (e *expiring[T]) add(now time.Time, item T) string {
	maps.DeleteFunc(e.items, func(_ secretHash, t T) bool { return !e.ends(t).After(now) })
	for len(e.items) >= e.limit {
		var first secretHash
		var at time.Time
		for hash, t := range e.items {
			if at.IsZero() || e.ends(t).Before(at) {
				first, at = hash, e.ends(t)
			}
		}
		delete(e.items, first)
	}
	secret := rand.Text() + rand.Text()
	e.items[hashOf(secret)] = item
	return secret
}

// get returns the item of a secret that has not ended. The place of a hash in the map
// tells nothing about a secret, since nobody can choose the hash of one.
func (e *expiring[T]) get(now time.Time, secret string) (item T, ok bool) {
	item, ok = e.items[hashOf(secret)]
	return item, ok && e.ends(item).After(now)
}

// sessions are the browsers that have signed in, and the codes that were not used yet.
// They end with the daemon.
type sessions struct {
	now func() time.Time

	mu    sync.Mutex
	codes expiring[session]
	open  expiring[*session]
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{
		now:   now,
		codes: expiring[session]{limit: maxCodes, items: map[secretHash]session{}, ends: func(s session) time.Time { return s.ends }},
		open:  expiring[*session]{limit: maxSessions, items: map[secretHash]*session{}, ends: func(s *session) time.Time { return s.ends }},
	}
}

// newCode returns a code with which a browser can sign in once.
func (s *sessions) newCode(v Visitor) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	return s.codes.add(now, session{visitor: v, ends: now.Add(codeTime)})
}

// useCode returns the visitor that a code was made for. A code is used up by it.
func (s *sessions) useCode(code string) (Visitor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.codes.get(s.now(), code)
	delete(s.codes.items, hashOf(code))
	return found.visitor, ok
}

// begin signs a browser in, and returns the value of its cookie.
func (s *sessions) begin(v Visitor) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	return s.open.add(now, &session{visitor: v, form: rand.Text(), ends: now.Add(sessionTime)})
}

// of returns the session of a request, or nil.
func (s *sessions) of(r *http.Request) *session {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.open.get(s.now(), cookie.Value)
	if !ok {
		return nil
	}
	return found
}

// end signs the browser of a request out.
func (s *sessions) end(r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open.items, hashOf(cookie.Value))
	}
}

// hasForm reports whether a form was made for this session.
func (s *session) hasForm(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(s.form), []byte(secret)) == 1
}

// cookie returns the cookie of a session. Scripts do not see it, other sites do not
// make the browser send it, and it is not sent to the API.
func cookie(r *http.Request, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure where there is TLS; without it the pages are on loopback only
		Name: cookieName, Value: value, Path: sitePath, MaxAge: int(age.Seconds()), HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	}
}
