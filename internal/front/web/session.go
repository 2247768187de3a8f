package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"
)

const (
	// sessionTime is how long a browser stays signed in, codeTime how long a code can
	// be used.
	sessionTime = 12 * time.Hour
	codeTime    = 5 * time.Minute
	// maxSessions and maxCodes bound what is remembered of each visitor.
	maxSessions = 20
	maxCodes    = 5
	// cookieName is the name of the cookie, which browsers send to the pages only.
	cookieName = "forkcell_session"
	sitePath   = "/ui"
	codePath   = sitePath + "/code"
	assetsPath = sitePath + "/assets/"
)

// secretHash is the hash of a code or of a cookie. Secrets themselves are not kept.
type secretHash [sha256.Size]byte

func hashOf(secret string) secretHash { return sha256.Sum256([]byte(secret)) }

// session is a browser that has signed in, or may do so with a code.
type session struct {
	visitor Visitor
	// form is the secret that forms of this session carry.
	form string
	ends time.Time
}

// expiring has sessions by their secrets. Each visitor has a limited number: the one
// that ends first makes room.
type expiring struct {
	limit int
	items map[secretHash]*session
}

// add keeps a session under a new secret, and returns the secret.
func (e *expiring) add(now time.Time, item *session) string {
	var first secretHash
	same := 0
	for hash, s := range e.items {
		switch {
		case !s.ends.After(now):
			delete(e.items, hash)
		case s.visitor == item.visitor:
			if same++; same == 1 || s.ends.Before(e.items[first].ends) {
				first = hash
			}
		}
	}
	if same >= e.limit {
		delete(e.items, first)
	}
	secret := rand.Text() + rand.Text()
	e.items[hashOf(secret)] = item
	return secret
}

// get returns the session of a secret that has not ended, or nil. The place of a hash
// in the map reveals nothing about a secret, since the hash of one cannot be chosen.
func (e *expiring) get(now time.Time, secret string) *session {
	s := e.items[hashOf(secret)]
	if s == nil || !s.ends.After(now) {
		return nil
	}
	return s
}

// sessions are the browsers that have signed in, and the codes that were not used yet.
// They end with the daemon.
type sessions struct {
	now func() time.Time

	mu          sync.Mutex
	codes, open expiring
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, codes: expiring{maxCodes, map[secretHash]*session{}}, open: expiring{maxSessions, map[secretHash]*session{}}}
}

// newCode returns a code with which a browser can sign in once.
func (s *sessions) newCode(v Visitor) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	return s.codes.add(now, &session{visitor: v, ends: now.Add(codeTime)})
}

// useCode returns the visitor that a code was made for. A code is used up by it.
func (s *sessions) useCode(code string) (Visitor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.codes.get(s.now(), code)
	delete(s.codes.items, hashOf(code))
	if found == nil {
		return Visitor{}, false
	}
	return found.visitor, true
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
	return s.open.get(s.now(), cookie.Value)
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
