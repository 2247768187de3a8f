package engine

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// checkWarm refuses a request for a warm cell that its runtime cannot meet.
func checkWarm(w *api.WarmRequest, runtime string) error {
	native := cmp.Or(runtime, api.RuntimeNative) == api.RuntimeNative
	switch {
	case w == nil:
		return nil
	case len(w.Args) == 0 || w.Args[0] == "":
		return api.Usagef("", "no command to make warm")
	case CheckReady(w.Ready) != nil:
		return api.Usagef("give REGEX, port:N, file:PATH or notify", "bad value for --ready: %v", CheckReady(w.Ready))
	case native && (w.Ready == "notify" || strings.HasPrefix(w.Ready, "port:")):
		return readyElsewhere(w.Ready)
	case !native && w.Input != "":
		return api.Refusef(api.CodeRuntime, "--runtime native has them; with this one any live cell can be branched, whatever runs in it",
			"the runtime %s has no warm interpreters", runtime)
	case !native && w.Ready == "":
		return api.Refusef(api.CodeRuntime, "give --ready", "with the runtime %s only --ready says when the command is warm", runtime)
	}
	return nil
}

// CheckReady checks the syntax of --ready.
func CheckReady(when string) error {
	if port, ok := strings.CutPrefix(when, "port:"); ok {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q is no port: a number from 1 to 65535", port)
		}
		return nil
	}
	if path, ok := strings.CutPrefix(when, "file:"); ok {
		if path == "" {
			return errors.New("file: without a path")
		}
		return nil
	}
	_, err := regexp.Compile(when)
	return err
}

// readyElsewhere refuses a condition that only other runtimes can look at.
func readyElsewhere(when string) error {
	return api.Refusef(api.CodeRuntime, "leave it out: the process says itself when it is warm",
		"--ready %s: the runtime native cannot look at that", quote.Arg(when))
}
