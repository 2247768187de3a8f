package egress_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

// keeper is an upstream that keeps what it was sent, and repeats it elsewhere.
type keeper struct{ given chan string }

func (k keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		k.given <- strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		return
	}
	given := <-k.given
	k.given <- given
	w.Header().Set("Location", "https://"+api+"/?t="+given)
	w.Header().Add("Set-Cookie", "t="+given)
	w.Header().Set("Www-Authenticate", "Basic "+base64.StdEncoding.EncodeToString([]byte("user:"+given)))
	w.Header().Set("Trailer", "X-Last")
	w.Header().Set("X-Asked", r.Header.Get("Accept-Encoding"))
	_, _ = io.WriteString(w, "profile of "+given)
	w.Header().Set("X-Last", given)
}

const otherPorts = "{host: api.example.com, port: 80, protocol: rest, access: full, tls: off}"

// repeats reports whether an answer has the value, in a form that is searched for.
func repeats(answer any, value string) bool {
	text, coded := fmt.Sprint(answer), base64.RawStdEncoding.EncodeToString([]byte("user:"+value))
	return strings.Contains(text, value) || strings.Contains(text, coded)
}

// TestRepeatedElsewhere has a host repeat a value at a path and on a port to which
// the credential does not go.
func TestRepeatedElsewhere(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		text := rules(fullAPI, otherPorts, twoAPIs) + tokens
		g, _ := withToken(t, text)
		c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
		k := keeper{make(chan string, 1)}
		c.serve(api, 443, k)
		c.serve(api, 80, k)
		c.serve("b.example.com", 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Header.Get("Accept-Encoding"))
		}))
		cl := c.client(h2)
		if status, body, _ := get(t, cl, "GET", "https://"+api+"/v1/x", nil); status != 200 {
			t.Fatal(status, body)
		}
		for _, url := range []string{"https://" + api + "/me", "http://" + api + "/me"} {
			res, err := cl.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || string(body) != "profile of "+strings.Repeat("*", len(secret)) {
				t.Errorf("%s: %q, %v", url, body, err)
			}
			if repeats(res.Header, secret) || repeats(res.Trailer, secret) || res.Trailer.Get("X-Last") == "" {
				t.Errorf("%s: %v %v", url, res.Header, res.Trailer)
			}
			if got := res.Header.Get("X-Asked"); got != "identity" {
				t.Errorf("%s: the upstream is asked for %q", url, got)
			}
		}
		// Other hosts are asked for what the program wants.
		if status, body, _ := get(t, cl, "GET", "https://b.example.com/", nil, "Accept-Encoding", "gzip"); status != 200 || body != "gzip" {
			t.Error(status, body)
		}
	})
}

// TestRepeatedAfterReload has a host repeat a value that a new policy has replaced,
// and then one that no policy names any more.
func TestRepeatedAfterReload(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		text := rules(fullAPI) + tokens
		g, _ := withToken(t, text)
		c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
		k := keeper{make(chan string, 1)}
		c.serve(api, 443, k)
		cl := c.client(h2)
		if status, body, _ := get(t, cl, "GET", "https://"+api+"/v1/x", nil); status != 200 {
			t.Fatal(status, body)
		}
		for _, text := range []string{text, rules(fullAPI)} {
			g = c.follow(text, g)
			status, body, header := get(t, cl, "GET", "https://"+api+"/me", nil)
			if status != 200 || repeats(body, secret) || repeats(header, secret) {
				t.Errorf("%d %s %v", status, body, header)
			}
		}
	})
}

// follow loads the generation that follows another, with a new value for its
// credential if it has one.
func (c *cell) follow(rules string, before *egress.Generation) *egress.Generation {
	c.t.Helper()
	g, values := generation(c.t, rules), map[string]*credential.Value{}
	for _, cr := range g.Policy.Credentials {
		v, err := credential.NewValue([]byte("another-value-of-it"))
		if err != nil {
			c.t.Fatal(err)
		}
		values[cr.Name] = v
	}
	var err error
	if g.Credentials, err = before.Credentials.Reload(g.Policy.Credentials, values); err != nil {
		c.t.Fatal(err)
	}
	if err := c.proxy.Reload(g); err != nil {
		c.t.Fatal(err)
	}
	return g
}

// TestRepeatedMeanwhile has a host repeat values in answers that began before the
// values came: the one that is searched is masked, the one that is not is cut.
func TestRepeatedMeanwhile(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		text := rules(fullAPI, twoAPIs) + tokens
		g, _ := withToken(t, text)
		c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
		more := make(chan string)
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			select {
			case s := <-more:
				_, _ = io.WriteString(w, s)
			case <-r.Context().Done():
			}
		})
		c.serve(api, 443, slow)
		c.serve("b.example.com", 443, slow)
		cl := c.client(h2)
		var answers []*http.Response
		for _, host := range []string{api, "b.example.com"} {
			res, err := cl.Get("https://" + host + "/me")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			answers = append(answers, res)
		}
		c.follow(strings.Replace(text, "token: {endpoints: [", "token: {endpoints: [{host: b.example.com, port: 443}, ", 1), g)
		if b, err := io.ReadAll(answers[1].Body); err == nil {
			t.Errorf("an answer that is not searched ended well: %q", b)
		}
		more <- "it is another-value-of-it"
		if b, err := io.ReadAll(answers[0].Body); err != nil || string(b) != "it is *******************" {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// TestRepeatedCompressed has a host compress its answers message by message.
func TestRepeatedCompressed(t *testing.T) {
	t.Parallel()
	text := rules(fullAPI) + tokens
	g, _ := withToken(t, text)
	c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := fmt.Sprint(r.Header["Grpc-Accept-Encoding"], r.Header["Connect-Accept-Encoding"], r.Header["A-Im"]); got != "[identity] [identity] []" {
			t.Error("the upstream is asked for", got)
		}
		w.Header().Set(r.URL.Query().Get("name"), r.URL.Query().Get("value"))
	}))
	for name, want := range map[string]int{"Grpc-Encoding": 502, "Connect-Content-Encoding": 502, "Im": 502, "X-Any": 200} {
		for value, want := range map[string]int{"gzip": want, "identity": 200} {
			status, body, _ := get(t, c.client(true), "POST", "https://"+api+"/x?name="+name+"&value="+value, nil,
				"Grpc-Accept-Encoding", "gzip", "Grpc-Accept-Encoding", "identity", "Connect-Accept-Encoding", "br", "A-Im", "gzip")
			if status != want || status == 502 && !strings.Contains(body, "compresses its answer") {
				t.Errorf("%s: %s: %d %s", name, value, status, body)
			}
		}
	}
}

// TestRepeatedInFailure has a host repeat a value in an answer that cannot be read:
// the reason quotes it.
func TestRepeatedInFailure(t *testing.T) {
	t.Parallel()
	text := rules(fullAPI) + tokens
	g, _ := withToken(t, text)
	c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+r.Header.Get("Authorization")+"\r\n\r\n")
	}))
	status, body, _ := get(t, c.client(false), "GET", "https://"+api+"/v1/x", nil)
	if status != 502 || repeats(body, secret) || !strings.Contains(body, "Bearer ****") {
		t.Error(status, body)
	}
}
