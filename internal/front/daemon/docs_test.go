package daemon_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestDocsPage: the page has every operation and every document, links only to
// itself, and loads nothing.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.remote("").problem(401, api.CodeUnauthenticated, "GET", "/docs", nil)
	r := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}}).send("GET", "/docs", nil)
	page := string(r.body)
	if r.status != 200 || r.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(r.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("%d %s", r.status, r.header)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			ID string `json:"operationId"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(d.send("GET", "/openapi.json", nil).body, &doc); err != nil || len(doc.Paths) == 0 {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			if !strings.Contains(page, `id="`+op.ID+`"`) || !strings.Contains(page, "<h3><b>"+strings.ToUpper(method)+"</b> "+path+"</h3>") {
				t.Errorf("%s %s is missing", method, path)
			}
		}
	}
	for name := range doc.Components.Schemas {
		if !strings.Contains(page, `id="schema-`+name+`"`) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if id, ok := strings.CutPrefix(link[1], "#"); !ok || !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("the link %s leads nowhere", link[1])
		}
	}
	if found := regexp.MustCompile(`(?i)<(script|link|img|iframe)|src=|https?://`).FindString(page); found != "" {
		t.Errorf("the page has %q", found)
	}
}
