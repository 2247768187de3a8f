package rest

import (
	"errors"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestRunMessages: the run in a socket is refused for the same faults as the body of
// POST /v1/cells/{cell}/runs.
func TestRunMessages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"command":["true"],"tty":true,"cols":80,"rows":24,"term":"xterm-256color","input":true}`: "",
		`{"command":["true"],"env":{"A":"b","a":"c"},"pids":5}`:                                    "",
		`{"command":["true"],"pids":-5}`:                                                           "pids",
		`{"command":["true"],"pids":0}`:                                                            "pids",
		`{"command":["true"],"cpus":-1}`:                                                           "cpus",
		`{"command":["true"],"memory":""}`:                                                         "memory",
		`{"command":["true"],"cache":"all"}`:                                                       "cache",
		`{"command":["true"],"timeout":"1s","timeout":"9h"}`:                                       "twice",
		`{"command":["true"],"env":{"A":"b","A":"c"}}`:                                             "twice",
		`{"command":["true"],"Pids":5}`:                                                            "Pids",
		`{"COMMAND":["true"]}`:                                                                     "command",
		`{"command":["true"],"policy":null}`:                                                       "null",
		`{"command":["true"],"unknown":1}`:                                                         "unknown",
		`{"command":[]}`:                                                                           "command",
		`{"command":["true"],"cols":-1}`:                                                           "cols",
		`{"command":["true"],"rows":65536}`:                                                        "",
		`{"command":["true"],"tty":"yes"}`:                                                         "tty",
		`{"command":["true"]}{}`:                                                                   "",
		`{"command":["true"],"stdin":"a"}`:                                                         "",
		`{"command":["true"],"term":"x\u001b]0;title\u0007"}`:                                      "terminal",
		`{"command":["true"],"term":"a b"}`:                                                        "terminal",
		`{"command":["` + strings.Repeat("a", 10) + `"],"term":"` + strings.Repeat("x", 65) + `"}`: "term",
		`[]`:   "",
		`null`: "",
	} {
		good := want == "" && (strings.Contains(text, "input") || strings.Contains(text, `"pids":5}`) && strings.Contains(text, "env"))
		_, err := readRun([]byte(text))
		if good != (err == nil) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err == nil {
			continue
		}
		said := err.Error()
		if p, ok := errors.AsType[*problem](err); ok {
			said += " " + strings.Join(p.Details, " ")
			if p.Status != 400 || p.Code != api.CodeUsage {
				t.Errorf("%s: %d %s", text, p.Status, p.Code)
			}
		}
		if !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q", text, said, want)
		}
	}
}
