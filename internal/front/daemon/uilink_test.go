package daemon

import "testing"

// TestCheckLink: a browser is only led to the daemon that was asked.
func TestCheckLink(t *testing.T) {
	t.Parallel()
	const code = "/ui/sign-in?code=abc"
	for _, c := range []struct{ daemon, answer, want string }{
		{"https://cells.example.com", "https://cells.example.com" + code, "https://cells.example.com" + code},
		{"https://cells.example.com:443/", "https://CELLS.example.com" + code, "https://CELLS.example.com" + code},
		{"http://10.0.0.5:7070", "http://10.0.0.5:7070" + code, "http://10.0.0.5:7070" + code},
		{"unix:/run/forkcell.sock", "http://pages.localhost:4711" + code, "http://pages.localhost:4711" + code},
		{"http://127.0.0.1:7070", "http://pages.localhost:7070" + code, "http://pages.localhost:7070" + code},
		{"https://localhost:7070", "http://[::1]:4711" + code, "http://[::1]:4711" + code},
		{"https://cells.example.com", "https://cells.example.com" + code + "&next=//evil.example&x=1#y", "https://cells.example.com" + code},

		{"https://cells.example.com", "javascript:alert(1)//cells.example.com" + code, ""},
		{"https://cells.example.com", "data:text/html,x", ""},
		{"https://cells.example.com", "file://cells.example.com" + code, ""},
		{"https://cells.example.com", "https://evil.example" + code, ""},
		{"https://cells.example.com", "https://cells.example.com.evil.example" + code, ""},
		{"https://cells.example.com", "https://cells.example.com@evil.example" + code, ""},
		{"https://cells.example.com", "https://u:p@cells.example.com" + code, ""},
		{"https://cells.example.com", "https://cells.example.com:8443" + code, ""},
		{"https://cells.example.com", "http://cells.example.com" + code, ""},
		{"https://cells.example.com", "http://127.0.0.1:631" + code, ""},
		{"https://cells.example.com", "https://cells.example.com/other?code=abc", ""},
		{"https://cells.example.com", "https://cells.example.com/ui/../x?code=abc", ""},
		{"https://cells.example.com", "https://cells.example.com/ui/sign-in", ""},
		{"https://cells.example.com", "/ui/sign-in?code=abc", ""},
		{"https://cells.example.com", "", ""},
		{"unix:/run/forkcell.sock", "http://evil.example" + code, ""},
		{"unix:/run/forkcell.sock", "http://localhost.evil.example" + code, ""},
		{"http://127.0.0.1:7070", "http://10.0.0.5:7070" + code, ""},
	} {
		got, err := checkLink(c.answer, c.daemon)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s of %s: %q, %v; want %q", c.answer, c.daemon, got, err, c.want)
		}
	}
}
