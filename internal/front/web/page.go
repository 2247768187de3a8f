package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	slashpath "path"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/text/quote"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/style.css
var styleText []byte

//go:embed assets/app.js
var scriptText []byte

//go:embed assets/icon.svg
var iconText []byte

// frame is the part of every page around its body.
type frame struct {
	Title string
	// Nav is the entry of the navigation that the page belongs to.
	Nav string
	// Visitor is "" before the sign-in.
	Visitor string
	Admin   bool
	// Form is the secret of forms.
	Form string
	// Done is a sentence about what a form has done.
	Done string
	// Live is the address of the page's live updates, or "".
	Live string
	// Refresh is where the browser goes on by itself, or "".
	Refresh string
	Body    any
}

// pages are the templates, by the name of the page. They are parsed when the first
// page is made: the program of a daemon is also that of its supervisors.
var pages = sync.OnceValue(parsePages)

func parsePages() map[string]*template.Template {
	base := template.Must(template.New("frame.html").Funcs(functions()).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html"))
	names, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // the files are in the program
	}
	all := map[string]*template.Template{}
	for _, f := range names {
		name := strings.TrimSuffix(f.Name(), ".html")
		if name == "frame" || name == "parts" {
			continue
		}
		all[name] = template.Must(template.Must(base.Clone()).ParseFS(templateFiles, "templates/"+f.Name()))
	}
	return all
}

func functions() template.FuncMap {
	return template.FuncMap{
		"path": path, "visible": visible, "line": quote.Line, "name": quote.Path, "command": quote.Argv, "ran": ranText, "query": query,
		"time": showTime, "ago": ago, "bytes": showBytes, "count": api.Counted, "elsewhere": api.ElsewhereText, "short": short, "source": api.SourceText, "micros": showMicros, "took": elapsed,
		"mark": mark, "style": func() string { return assetPath("style.css", styleText) }, "script": func() string { return assetPath("app.js", scriptText) },
		"icon": func() string { return assetPath("icon.svg", iconText) }, "base": slashpath.Base,
		"join": strings.Join, "add": func(a, b int) int { return a + b }, "hash": shortHash, "shown": shownBytes,
	}
}

// query returns a query of names and values. Empty values are left out.
func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return ""
	}
	return "?" + v.Encode()
}

// render sends a page. It is made whole before the first byte is sent, so that a
// failure is still a page.
func (s *Site) render(w http.ResponseWriter, status int, name string, f frame) {
	var b bytes.Buffer
	if err := pages()[name].ExecuteTemplate(&b, "frame.html", f); err != nil {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, "The page %s could not be made: %v\n", name, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// show sends a page to a visitor.
func (q *request) show(name string, f frame) error { return q.showStatus(http.StatusOK, name, f) }

func (q *request) showStatus(status int, name string, f frame) error {
	if q.visit != nil {
		f.Visitor, f.Form, f.Admin = q.visit.Name(), q.session.form, q.may(op.Doctor)
	}
	f.Done = doneText(q.URL.Query().Get("done"))
	q.site.render(q.w, status, name, f)
	return nil
}

// doneText returns the sentence about what a form has done. Only known words are
// shown: a link can have any others.
func doneText(word string) string {
	return map[string]string{
		"accepted": "The run is accepted.", "partly": "A part of the run is accepted.", "rejected": "The run is rejected.",
		"restored": "The cell went back to the chosen state.", "rewound": "The session went back to the chosen turn. Its agent is stopped.", "applied": "The changes are written to the source directory.",
		"undone": "The last apply was taken back.", "chosen": "The attempt is chosen: the cell has its state. It is not yet in the source directory.", "policy": "The cell has the new policy.",
	}[word]
}

// goTo sends the browser to another page after a form.
func (q *request) goTo(to string) error {
	http.Redirect(q.w, q.Request, to, http.StatusSeeOther)
	return nil
}

// failure is the page of an error.
type failure struct {
	api.Problem
	Back string
}

// fail shows an error.
func (q *request) fail(err error) {
	f := failure{Problem: q.site.config.Problem(q.Request, err)}
	if q.Method == http.MethodPost {
		f.Back = q.PostForm.Get("back")
		if !strings.HasPrefix(f.Back, sitePath+"/") {
			f.Back = ""
		}
	}
	title := f.Title
	if f.Status == http.StatusPreconditionFailed {
		title = "The state has moved"
	}
	addHeaders(q.w, err)
	_ = q.showStatus(f.Status, "failure", frame{Title: title, Body: f})
}

// problem returns what an error says to a visitor.
func (q *request) problem(err error) string { return q.site.config.Problem(q.Request, err).Detail }

// isGone reports whether what a page looked for does not exist. After any other error
// it may exist, and cannot be read.
func isGone(err error) bool { return api.KindOf(err) == api.NotFound }

// addHeaders sets the headers that belong to an error, such as Retry-After.
func addHeaders(w http.ResponseWriter, err error) {
	if with, ok := errors.AsType[interface {
		error
		GetHeaders() http.Header
	}](err); ok {
		maps.Copy(w.Header(), with.GetHeaders())
	}
}

// assetPath returns the address of a file of the program, which changes with it.
func assetPath(name string, content []byte) string {
	sum := sha256.Sum256(content)
	return assetsPath + hex.EncodeToString(sum[:6]) + "/" + name
}

// addAssets adds the style and the script. They say nothing about cells, and need no
// session.
func (s *Site) addAssets() {
	for name, file := range map[string]struct {
		kind string
		text []byte
	}{"style.css": {"text/css; charset=utf-8", styleText}, "app.js": {"text/javascript; charset=utf-8", scriptText}, "icon.svg": {"image/svg+xml", iconText}} {
		s.mux.HandleFunc("GET "+assetPath(name, file.text), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			_, _ = w.Write(file.text)
		})
	}
}

// ranText returns what ran as one line of visible characters.
func ranText(of interface{ Ran() api.Ran }) string { return of.Ran().Text(quote.Argv, quote.Line) }
