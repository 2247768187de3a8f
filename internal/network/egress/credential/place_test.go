package credential_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

// TestPlaces sends a placeholder to its own endpoint, in every part of a request. It is
// replaced only in a place that the credential names; anywhere else the request is denied
// and unchanged.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const site = "https://a.example/"
	set, a, _ := two(t, false)
	post := func(body string, headers ...string) *http.Request { return request(t, "POST", site, body, headers...) }
	trailer := post("x")
	trailer.Trailer = http.Header{"X-Sum": {a}}
	for name, req := range map[string]*http.Request{
		"part of a query":               request(t, "GET", site+"?title=my-"+a, ""),
		"part of a named parameter":     request(t, "GET", site+"?k=my-"+a, ""),
		"named parameter in percent":    request(t, "GET", site+"?k="+percent("my "+a), ""),
		"other parameter":               request(t, "GET", site+"?title="+a, ""),
		"other parameter, case":         request(t, "GET", site+"?K="+a, ""),
		"key of the query":              request(t, "GET", site+"?"+a+"=1", ""),
		"behind a semicolon":            request(t, "GET", site+"?x=1;k="+a, ""),
		"before a semicolon":            request(t, "GET", site+"?k="+a+";x", ""),
		"path":                          request(t, "GET", site+a, ""),
		"other header":                  post("", "User-Agent", "ua-"+a),
		"header of the service":         post("", "X-Amz-Meta-A", a),
		"other header, with underscore": post("", "X_named", a),
		"part of a named header":        post("", "X-Named", "x"+a),
		"twice in a named header":       post("", "X-Named", a+" "+a),
		"list in a named header":        post("", "X-Named", a+", "+a),
		"two schemes":                   post("", "X-Named", "a b "+a),
		"a scheme that is none":         post("", "X-Named", "k="+a+"; "+a),
		"a foreign lead":                post("", "X-Named", "sk-"+a),
		"upper case":                    post("", "X-Named", strings.ToUpper(a)),
		"base64":                        post("", "X-Named", base64.StdEncoding.EncodeToString([]byte(a))),
		"basic of an unnamed header":    post("", "X-Named", basic("me:"+a)),
		"basic, part of the password":   post("", "Authorization", basic("me:x"+a)),
		"basic, beside a good one":      post("", "Authorization", basic("x-"+a+":"+a)),
		"basic, two colons":             post("", "Authorization", basic("me:"+a+":x")),
		"body":                          post("x=" + a),
		"stream":                        stream(post("x=" + a)),
		"trailer":                       trailer,
	} {
		sentHeader := req.Header.Clone()
		_, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime)
		var sent string
		if err == nil {
			sent, err = readBody(t, req)
		}
		var misuse *credential.MisuseError
		switch {
		case !errors.As(err, &misuse):
			t.Errorf("%s: %v, sent %v %s %q", name, err, req.Header, req.URL, sent)
		case misuse.Credential != "a" || misuse.Places != "the header Authorization, the header X-Named, the query parameter k":
			t.Errorf("%s: %q %q", name, misuse.Credential, misuse.Places)
		case strings.Contains(err.Error(), a):
			t.Errorf("%s: the error holds the placeholder", name)
		}
		if diff := cmp.Diff(sentHeader, req.Header); diff != "" {
			t.Errorf("%s: the header changed (-want +got)\n%s", name, diff)
		}
	}
	if _, _, err := set.Message(target("a.example", "/"), []byte(a)); err == nil {
		t.Error("a message")
	}
}

// TestInjectedHeaderIsAPlace: a program that sends the placeholder in the header that the
// credential sets gets the value there, whatever stands around it, and another credential's
// placeholder is denied there.
func TestInjectedHeaderIsAPlace(t *testing.T) {
	t.Parallel()
	set, err := credential.NewSet([]policy.Credential{
		{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A", Header: "authorization", Format: "Bearer {value}"},
		{Name: "b", Endpoints: at(t, "a.example", "/**"), ExposeAs: "B", ReplaceInQuery: []string{"k"}},
	}, map[string]*credential.Value{"a": value(t, secretA), "b": value(t, secretB)})
	if err != nil {
		t.Fatal(err)
	}
	env := set.Environment()
	for _, text := range []string{env["A"], "token " + env["A"], basic("me:" + env["A"]), "a " + env["A"] + " b"} {
		req := request(t, "GET", "https://a.example/", "", "Authorization", text)
		if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime); err != nil || req.Header.Get("Authorization") != "Bearer "+secretA {
			t.Errorf("%q became %q, %v", text, req.Header.Get("Authorization"), err)
		}
	}
	var misuse *credential.MisuseError
	req := request(t, "GET", "https://a.example/", "", "Authorization", env["B"])
	if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime); !errors.As(err, &misuse) || misuse.Credential != "b" {
		t.Errorf("another one's: %v", err)
	}
}

// TestKeepInBody: where the policy says so, a placeholder stays in bodies and messages, and
// nowhere else.
func TestKeepInBody(t *testing.T) {
	t.Parallel()
	set, err := credential.NewSet([]policy.Credential{{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A", KeepInBody: true}},
		map[string]*credential.Value{"a": value(t, secretA)})
	if err != nil {
		t.Fatal(err)
	}
	a := set.Environment()["A"]
	for _, req := range []*http.Request{request(t, "POST", "https://a.example/", "x"+a), stream(request(t, "POST", "https://a.example/", "x"+a))} {
		if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime); err != nil {
			t.Fatal(err)
		}
		if got, err := readBody(t, req); err != nil || got != "x"+a {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, used, err := set.Message(target("a.example", "/"), []byte(a)); err != nil || string(got) != a || len(used) > 0 {
		t.Errorf("%q, %v, %v", got, used, err)
	}
	var misuse *credential.MisuseError
	if _, err := set.Apply(t.Context(), request(t, "GET", "https://a.example/?k="+a, ""), target("a.example", "/"), nil, signTime); !errors.As(err, &misuse) ||
		!strings.Contains(misuse.Error(), "no part of a request") {
		t.Errorf("%v", err)
	}
	if _, err := set.Apply(t.Context(), request(t, "POST", "https://b.example/", a), target("b.example", "/"), nil, signTime); !errors.As(err, &misuse) {
		t.Errorf("elsewhere: %v", err)
	}
}
