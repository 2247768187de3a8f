package adapter

import (
	"fmt"
	"slices"
	"strings"
)

// The autonomies of a session.
const (
	// Yolo lets the agent work without asking.
	Yolo = "yolo"
	// Prompt makes the agent ask before it acts.
	Prompt = "prompt"
)

// Command returns the arguments of the program: those of the adapter for an autonomy,
// then those of the user. A user who asks for the version alone gets it as on the host:
// with other arguments before, some programs load all that they have first.
func (a *Adapter) Command(autonomy string, user []string) []string {
	if len(user) > 0 && slices.Equal(user, a.Program.VersionArguments) {
		return slices.Clone(user)
	}
	own := a.Arguments.Yolo
	if autonomy == Prompt {
		own = a.Arguments.Prompt
	}
	return slices.Concat(a.Arguments.Always, own, user)
}

// Continue returns the user's arguments for a program that continues its last
// conversation.
func (r Resume) Continue(user []string) []string {
	if len(user) > 0 {
		if command, ok := r.Commands[user[0]]; ok {
			return slices.Concat(command, user[1:])
		}
	}
	return slices.Concat(r.Interactive, user)
}

// refusedError is the error of an argument that the adapter refuses.
type refusedError struct {
	Agent, Argument, Why string
}

// Error names the argument and the reason.
func (e *refusedError) Error() string {
	return fmt.Sprintf("%s is not passed to %s: %s", e.Argument, e.Agent, e.Why)
}

// Check refuses arguments of the user that the adapter lists. The error is a
// *refusedError.
func (a *Adapter) Check(user []string) error {
	command := ""
	for i, arg := range user {
		if arg == "--" {
			break
		}
		value := ""
		if i+1 < len(user) {
			value = user[i+1]
		}
		isFlag := strings.HasPrefix(arg, "-") && arg != "-"
		for _, r := range a.Refused {
			switch {
			case isFlag && r.flag(arg), isFlag && r.setting(arg, value):
				return &refusedError{a.Name, arg, r.Why}
			case !isFlag && command == "" && slices.Contains(r.Commands, arg):
				return &refusedError{a.Name, arg, r.Why}
			}
		}
		if !isFlag && command == "" && !a.takesValue(user, i) {
			command = arg
		}
	}
	return nil
}

// takesValue reports whether the argument before i may be a flag that has i as its
// value. Which flags take one is not known, so a word after a flag is taken both as a
// value and as a command.
func (a *Adapter) takesValue(user []string, i int) bool {
	return i > 0 && strings.HasPrefix(user[i-1], "-") && !strings.Contains(user[i-1], "=")
}

// flag reports whether an argument is one of the flags, alone, with its value after
// an equals sign or, for a flag of one letter, with its value glued to it.
func (r Refusal) flag(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return slices.ContainsFunc(r.Flags, func(f string) bool {
		if prefix, ok := strings.CutSuffix(f, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		short := len(f) == 2 && f[0] == '-' && f[1] != '-'
		return name == f || short && strings.HasPrefix(arg, f) && !strings.HasPrefix(arg, "--")
	})
}

// setting reports whether an argument sets one of the keys, as -c KEY=VALUE,
// -cKEY=VALUE, --config KEY=VALUE or --config=KEY=VALUE.
func (r Refusal) setting(arg, next string) bool {
	if len(r.Settings) == 0 {
		return false
	}
	text := ""
	switch {
	case arg == "-c", arg == "--config":
		text = next
	case strings.HasPrefix(arg, "--config="):
		text = strings.TrimPrefix(arg, "--config=")
	case strings.HasPrefix(arg, "-c") && !strings.HasPrefix(arg, "--"):
		text = strings.TrimPrefix(strings.TrimPrefix(arg, "-c"), "=")
	default:
		return false
	}
	key, _, _ := strings.Cut(text, "=")
	key = strings.ToLower(strings.Map(func(c rune) rune {
		if strings.ContainsRune("\"' \t", c) {
			return -1
		}
		return c
	}, key))
	// A profile of codex holds the same keys.
	if rest, ok := strings.CutPrefix(key, "profiles."); ok {
		_, key, _ = strings.Cut(rest, ".")
	}
	return slices.ContainsFunc(r.Settings, func(s string) bool {
		if prefix, ok := strings.CutSuffix(s, "*"); ok {
			return strings.HasPrefix(key, prefix)
		}
		return key == s || strings.HasPrefix(key, s+".")
	})
}
