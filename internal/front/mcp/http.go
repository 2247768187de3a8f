package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	sessionHeader = "Mcp-Session-Id"
	// maxBody bounds the body of a request.
	maxBody = 8 << 20
	// maxSessions bounds the sessions of one caller, and sessionTimeout the time that
	// a session is kept without a request.
	maxSessions    = 64
	sessionTimeout = 30 * time.Minute
)

// Handler serves the tools over streamable HTTP. session returns the caller of a
// request, which has been let in. A session belongs to the caller that began it: for
// all others it does not exist.
func (c *Catalog) Handler(session func(*http.Request) Session, logger *slog.Logger) http.Handler {
	return newHandler(c.Server, session, sdk.StreamableHTTPOptions{Logger: logger})
}

// newHandler returns a handler whose sessions have the servers that newServer makes.
func newHandler(newServer serverFunc, session func(*http.Request) Session, o sdk.StreamableHTTPOptions) *handler {
	h := &handler{newServer: newServer, session: session, key: make([]byte, sha256.Size), blank: newServer(Session{}, nil), servers: map[string][]*sdk.Server{}}
	_, _ = rand.Read(h.key) // it never fails
	o.SessionTimeout, o.MaxRequestBodyBytes = sessionTimeout, maxBody
	h.inner = sdk.NewStreamableHTTPHandler(h.serverOf, &o)
	return h
}

// serverFunc makes the server of a session.
type serverFunc func(Session, *sdk.ServerOptions) *sdk.Server

type handler struct {
	newServer serverFunc
	session   func(*http.Request) Session
	key       []byte // makes the ids of sessions
	blank     *sdk.Server
	inner     http.Handler

	mu sync.Mutex
	// servers has those of sessions, by their callers.
	servers map[string][]*sdk.Server
}

type serverKey struct{}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := h.session(r)
	if id := r.Header.Get(sessionHeader); id != "" {
		if !h.owns(session.ID, id) {
			http.Error(w, "session not found", http.StatusNotFound)
			return
		}
		h.inner.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodPost {
		h.inner.ServeHTTP(w, r)
		return
	}
	server := h.open(session)
	if server == nil {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many sessions", http.StatusTooManyRequests)
		return
	}
	h.inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, server)))
}

// serverOf returns the server of a new session. Requests of a session have theirs
// already, and only the versions of the protocol are asked for.
func (h *handler) serverOf(r *http.Request) *sdk.Server {
	if s, ok := r.Context().Value(serverKey{}).(*sdk.Server); ok {
		return s
	}
	return h.blank
}

// open returns a server for a new session, or nil if the caller has too many.
func (h *handler) open(session Session) *sdk.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	open := slices.DeleteFunc(h.servers[session.ID], func(s *sdk.Server) bool {
		for range s.Sessions() {
			return false
		}
		return true
	})
	if len(open) >= maxSessions {
		h.servers[session.ID] = open
		return nil
	}
	s := h.newServer(session, &sdk.ServerOptions{GetSessionID: func() string { return h.newID(session.ID) }})
	h.servers[session.ID] = append(open, s)
	return s
}

// newID returns the id of a new session: random, with a proof of whose it is.
func (h *handler) newID(owner string) string {
	text := rand.Text()
	return text + "." + h.proof(owner, text)
}

// owns reports whether a session is of a caller.
func (h *handler) owns(owner, id string) bool {
	text, proof, _ := strings.Cut(id, ".")
	return hmac.Equal([]byte(proof), []byte(h.proof(owner, text)))
}

func (h *handler) proof(owner, text string) string {
	mac := hmac.New(sha256.New, h.key)
	mac.Write([]byte(text + "\n" + owner))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
