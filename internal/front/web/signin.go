package web

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/forkcell/forkcell/internal/text/document"
)

// addSignIn adds the pages that need no session.
func (s *Site) addSignIn() {
	s.mux.HandleFunc("POST "+codePath, s.makeCode)
	s.mux.HandleFunc("GET "+sitePath+"/sign-in", s.signInByCode)
	s.mux.HandleFunc("POST "+sitePath+"/sign-in", s.signInByToken)
	s.post("/sign-out", func(q *request) error {
		s.sessions.end(q.Request)
		http.SetCookie(q.w, cookie(q.Request, "", -1))
		s.askToSignIn(q.w, q.Request, http.StatusOK, "You have signed out.")
		return nil
	})
}

// SignIn is the answer to a request for a code.
type SignIn struct {
	// URL signs a browser in, once, within a few minutes.
	URL string `json:"url"`
}

// makeCode answers a caller of the local socket, or one with a token, with a link that
// signs a browser in.
func (s *Site) makeCode(w http.ResponseWriter, r *http.Request) {
	v, err := s.config.Sender(r)
	var base string
	if err == nil {
		base, err = s.baseFor(r)
	}
	if err != nil {
		p := s.config.Problem(r, err)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
		_ = document.Write(w, p)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = document.Write(w, SignIn{URL: base + sitePath + "/sign-in?code=" + s.sessions.newCode(v)})
}

// baseFor returns the address at which the sender of a request finds the pages: the
// one that it uses itself, or, if that is the local socket or an address of loopback,
// one under the name of the pages. No certificate has that name.
func (s *Site) baseFor(r *http.Request) (string, error) {
	socket := strings.HasPrefix(r.RemoteAddr, "@") || r.RemoteAddr == ""
	switch at := (&url.URL{Scheme: "http", Host: r.Host}); {
	case socket || namesLoopback(r) && r.TLS != nil:
		return s.config.Address()
	case namesLoopback(r):
		return "http://" + net.JoinHostPort(s.config.Host, cmp.Or(at.Port(), "80")), nil
	case r.TLS != nil:
		at.Scheme = "https"
		return at.String(), nil
	default:
		return at.String(), nil
	}
}

// signInByCode begins a session with a code, or shows the form for a token.
func (s *Site) signInByCode(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	if code == "" {
		s.askToSignIn(w, r, http.StatusOK, "")
		return
	}
	v, ok := s.sessions.useCode(code)
	if !ok {
		s.askToSignIn(w, r, http.StatusUnauthorized, "This link was used already, or has expired. `forkcell ui` makes another one.")
		return
	}
	s.signIn(w, r, v)
}

// signInByToken begins a session with the secret of a token.
func (s *Site) signInByToken(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if !sameOrigin(r) {
		s.askToSignIn(w, r, http.StatusForbidden, "The form was sent from another site.")
		return
	}
	v, err := s.config.Secret(r, strings.TrimSpace(r.PostFormValue("token")))
	if err != nil {
		p := s.config.Problem(r, err)
		text := "This is not a valid token."
		if p.Status != http.StatusUnauthorized {
			text = p.Detail
		}
		addHeaders(w, err)
		s.askToSignIn(w, r, p.Status, text)
		return
	}
	s.signIn(w, r, v)
}

// signIn sets the cookie, and goes on by a page of this site: after a redirect from
// elsewhere a browser would not send the cookie.
func (s *Site) signIn(w http.ResponseWriter, r *http.Request, v Visitor) {
	http.SetCookie(w, cookie(r, s.sessions.begin(v), sessionTime))
	next := r.FormValue("next")
	if u, err := url.Parse(next); err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, sitePath+"/") {
		next = sitePath + "/"
	}
	s.render(w, http.StatusOK, "signed-in", frame{Title: "Signed in", Refresh: next, Body: next})
}

// signInForm is the page that asks for a token.
type signInForm struct{ Text, Next string }

func (s *Site) askToSignIn(w http.ResponseWriter, r *http.Request, status int, text string) {
	form := signInForm{Text: text}
	if r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/sign-in") {
		form.Next = r.URL.RequestURI()
	}
	s.render(w, status, "sign-in", frame{Title: "Sign in", Body: form})
}
