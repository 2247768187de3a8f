// Package standin is for tests: it stands in for the services of coding agents. It
// speaks their wire formats and plays a scripted session: each answer asks the agent to
// use one tool, and the last one ends the session.
//
// It must not know cells or Forkcell.
package standin

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Step is one use of a tool.
type Step struct {
	// Tool is read, write or shell.
	Tool string
	// File and Content are those of read and write, Command that of shell.
	File, Content, Command string
}

// Request is a request that the service received.
type Request struct {
	Host, Method, Path string
	Header             http.Header
	Body               []byte
}

// Service plays one session for any number of agents.
type Service struct {
	steps []Step

	mu       sync.Mutex
	requests []Request
}

// maxBody bounds a request.
const maxBody = 64 << 20

// New starts the service of some hosts with TLS, on a listener or, without one, on a
// loopback address. The server's certificate is its own authority.
func New(steps []Step, hosts []string, on net.Listener) (*Service, *httptest.Server, error) {
	s := &Service{steps: steps}
	cert, err := certificate(hosts)
	if err != nil {
		return nil, nil, err
	}
	server := httptest.NewUnstartedServer(s)
	if on != nil {
		_ = server.Listener.Close() // it was not used
		server.Listener = on
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	return s, server, nil
}

// Requests returns what was received up to now.
func (s *Service) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Host, r.Method, r.URL.Path, r.Header.Clone(), body})
	s.mu.Unlock()
	var q map[string]any
	_ = json.Unmarshal(body, &q) // side requests need not be JSON
	switch {
	case strings.HasSuffix(r.URL.Path, "/v1/messages") && r.Method == http.MethodPost:
		s.anthropic(w, q)
	case strings.HasSuffix(r.URL.Path, "/v1/responses") && r.Method == http.MethodPost:
		s.responses(w, q)
	case s.google(w, r, q, body):
	case s.chatgpt(w, r, body):
	case strings.Contains(r.URL.Path, "enerateContent"):
		s.gemini(w, q, strings.Contains(r.URL.Path, ":stream"))
	case s.copilot(w, r, q):
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, doc any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc) // the agent has gone, if this fails
}

// stream writes server-sent events.
func stream(w http.ResponseWriter, named bool, events ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			panic(err) // the events are those of this package
		}
		if named {
			_, _ = io.WriteString(w, "event: "+e["type"].(string)+"\n")
		}
		_, _ = io.WriteString(w, "data: "+string(data)+"\n\n")
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

// next returns the step after so many results; false at the end.
func (s *Service) next(results int) (Step, bool) {
	if results >= len(s.steps) {
		return Step{}, false
	}
	return s.steps[results], true
}

// count returns how many objects below v have the key with the value.
func count(v any, key, value string) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		if v[key] == value {
			n++
		}
		for _, x := range v {
			n += count(x, key, value)
		}
	case []any:
		for _, x := range v {
			n += count(x, key, value)
		}
	}
	return n
}

// has returns how many objects below v have the key.
func has(v any, key string) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v[key]; ok {
			n++
		}
		for _, x := range v {
			n += has(x, key)
		}
	case []any:
		for _, x := range v {
			n += has(x, key)
		}
	}
	return n
}

// Done is the text of the last answer.
const Done = "The work is done."

// call returns the tool and its arguments for a step, among the tools on offer.
func call(s Step, offered func(string) bool) (name string, args map[string]any) {
	pick := func(names ...string) string {
		for _, n := range names {
			if offered(n) {
				return n
			}
		}
		return names[0]
	}
	switch s.Tool {
	case "read":
		name = pick("Read", "read_file", "read", "view")
		return name, map[string]any{"file_path": s.File, "filePath": s.File, "path": s.File, "absolute_path": s.File}
	case "write":
		name = pick("Write", "write_file", "write", "create")
		return name, map[string]any{"file_path": s.File, "filePath": s.File, "path": s.File, "content": s.Content, "file_text": s.Content}
	default:
		name = pick("Bash", "run_shell_command", "bash", "shell")
		return name, map[string]any{"command": s.Command, "description": "a step of the session"}
	}
}

// fitting leaves only the arguments that a tool's schema has.
func fitting(args map[string]any, schema any) map[string]any {
	object, _ := schema.(map[string]any)
	known, _ := object["properties"].(map[string]any)
	if known == nil {
		return args
	}
	out := map[string]any{}
	for k, v := range args {
		if _, ok := known[k]; ok {
			out[k] = v
		}
	}
	return out
}
