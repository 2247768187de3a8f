package cell

import (
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
)

// checkWarm refuses a request for a template that no process can meet.
func checkWarm(w *api.WarmRequest) error {
	switch {
	case w == nil:
		return nil
	case len(w.Args) == 0 || w.Args[0] == "":
		return api.Usagef("", "no command to make warm")
	case w.Ready == "notify" || strings.HasPrefix(w.Ready, "port:"):
		return readyElsewhere(w.Ready)
	}
	return nil
}

// readyElsewhere refuses a condition that only other runtimes can look at.
func readyElsewhere(when string) error {
	return api.Refusef(api.CodeRuntime, "leave it out: the process says itself when it is warm",
		"--ready %s: the runtime native cannot look at that", quote.Arg(when))
}
