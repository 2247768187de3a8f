package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// maxForm bounds the body of a form. One with every file of a page ticked is smaller.
const maxForm = 1 << 20

// pagePolicy lets a page load the style, the script and the pictures of this site, and
// send forms to it. Nothing else: no script or style in a page, no other host.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Site serves the pages.
type Site struct {
	config   Config
	sessions *sessions
	mux      *http.ServeMux
}

// New makes a Site.
func New(c Config) *Site {
	s := &Site{config: c, sessions: newSessions(c.Now), mux: http.NewServeMux()}
	s.addSignIn()
	s.addAssets()
	s.addPages()
	return s
}

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// With no-referrer a browser would send forms with the origin "null".
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if namesLoopback(r) && r.URL.Path != codePath && !strings.HasPrefix(r.URL.Path, assetsPath) {
		s.render(w, http.StatusMisdirectedRequest, "elsewhere", frame{Title: "Elsewhere"})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// namesLoopback reports whether a request names an address of loopback. There are no
// pages under such a name: a browser would send the cookie to every port of it. The
// answer does not have the name of the pages, since any user of the host can ask.
func namesLoopback(r *http.Request) bool {
	u := url.URL{Host: r.Host}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// request is a request of a signed-in visitor.
type request struct {
	*http.Request
	site    *Site
	w       http.ResponseWriter
	session *session
	visit   Visit
	engine  Engine
}

// may reports whether the visitor may do an operation.
func (q *request) may(o op.Any) bool { return o.Head().AllowedTo(q.visit.May) }

// need refuses a visitor who may not do an operation.
func (q *request) need(o op.Any) error {
	for _, s := range o.Head().Needs {
		if !q.visit.May(s) {
			return api.Refusef(api.CodeForbidden, "sign in with a token that has it", "your token does not have the scope %s", s)
		}
	}
	return nil
}

// cell returns the name of the cell in the path, if the visitor may know of it.
func (q *request) cell() (string, error) { return q.visible(q.PathValue("cell")) }

func (q *request) visible(name string) (string, error) {
	if !q.visit.Sees(name) {
		return "", api.Missing("cell", name, "the page of cells lists them")
	}
	return name, nil
}

// run returns the run in the path, if the visitor may know of it.
func (q *request) run() (*api.RunInfo, error) {
	id := q.PathValue("run")
	info, err := q.engine.RunInfo(q.Context(), id)
	if err == nil && !q.visit.Sees(info.Cell) {
		err = api.Missing("run", id, "the page of a cell lists its runs")
	}
	return info, err
}

// get adds a page.
func (s *Site) get(pattern string, page func(*request) error) {
	s.mux.HandleFunc("GET "+sitePath+pattern, func(w http.ResponseWriter, r *http.Request) { s.admit(w, r, page) })
}

// post adds what a form does. The form must come from a page of the same session.
func (s *Site) post(pattern string, action func(*request) error) {
	s.mux.HandleFunc("POST "+sitePath+pattern, func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		s.admit(w, r, func(q *request) error {
			if err := q.ParseForm(); err != nil {
				return api.Usagef("send the form again", "the form could not be read")
			}
			if !sameOrigin(r) || !q.session.hasForm(q.PostForm.Get("form")) {
				return api.Refusef(api.CodeForbidden, "go back, reload the page and try again", "the form does not belong to this session")
			}
			return action(q)
		})
	})
}

// sameOrigin reports whether a form was sent from a page of this site. The server has
// refused a foreign Origin already; a browser that sends none says it by other means.
func sameOrigin(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") == "same-origin"
}

// admit calls do for a visitor who has signed in, and shows the others how to.
func (s *Site) admit(w http.ResponseWriter, r *http.Request, do func(*request) error) {
	q := &request{Request: r, site: s, w: w, session: s.sessions.of(r)}
	if q.session == nil {
		s.askToSignIn(w, r, http.StatusUnauthorized, "")
		return
	}
	var err error
	if q.visit, err = s.config.Visit(r, q.session.visitor); err != nil {
		q.turnAway(err)
		return
	}
	q.engine = q.visit.Engine(nil)
	if err := do(q); err != nil {
		q.fail(err)
	}
}

// turnAway answers a visitor who has signed in and is not admitted. The session ends
// only if its token has.
func (q *request) turnAway(err error) {
	if q.site.config.Problem(q.Request, err).Status != http.StatusUnauthorized {
		q.fail(err)
		return
	}
	q.site.sessions.end(q.Request)
	q.site.askToSignIn(q.w, q.Request, http.StatusUnauthorized, "Your token has ended.")
}

// path returns an address below the site, with the parts escaped.
func path(parts ...string) string {
	var b strings.Builder
	b.WriteString(sitePath)
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}
