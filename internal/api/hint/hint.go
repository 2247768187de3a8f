// Package hint words the hints of errors for callers that do not use the command line.
//
// Engines write hints for a person at a shell: with commands, in backquotes, and flags.
// A route of the API and a tool for a model each declare the command that they stand
// for, and their fields. From that, Words gives such a hint the words of its reader. A
// command that the reader has no call for stays: a person with a shell has to run it.
//
// The package knows neither the commands nor the API.
package hint

import (
	"regexp"
	"strings"
)

// Operation is the request that a caller makes instead of a command.
type Operation struct {
	// Command is the command without the name of the program. Fields in braces stand for
	// its arguments: "restore {cell} {checkpoint}".
	Command string
	// Fields are the names of the fields, and whether each is only set or not.
	Fields map[string]bool
	// Text returns the operation with values for some of its fields: a string, or true.
	Text func(values map[string]any) string
}

// Words are the operations of a caller.
type Words []Operation

var (
	command = regexp.MustCompile("`forkcell ([^`]*)`")
	// A file may be called --force: what is in a path or in quotes is no flag.
	flag = regexp.MustCompile("(^|[\\s`(|])--([a-z][a-z-]*[a-z])")
)

// Hint returns a hint in the words of the caller.
func (w Words) Hint(text string) string {
	var b strings.Builder
	for {
		at := command.FindStringSubmatchIndex(text)
		if at == nil {
			b.WriteString(w.Flags(text))
			return b.String()
		}
		b.WriteString(w.Flags(text[:at[0]]))
		if own, ok := w.operation(strings.Fields(text[at[2]:at[3]])); ok {
			b.WriteString("`" + own + "`")
		} else {
			b.WriteString(text[at[0]:at[1]])
		}
		text = text[at[1]:]
	}
}

// Flags returns a text with the caller's fields in place of flags.
func (w Words) Flags(text string) string {
	return flag.ReplaceAllStringFunc(text, func(found string) string {
		before, name, _ := strings.Cut(found, "--")
		for _, o := range w {
			if field, ok := o.field(name); ok {
				return before + field
			}
		}
		return found
	})
}

// operation returns the operation for a command. Of several that fit, it is the one whose
// command has the most words.
func (w Words) operation(args []string) (text string, ok bool) {
	most := 0
	for _, o := range w {
		words := strings.Fields(o.Command)
		if len(words) <= most {
			continue
		}
		if values, fits := o.values(words, args); fits {
			most, text = len(words), o.Text(values)
		}
	}
	return text, most > 0
}

// values returns the values that a command line has for the fields of the operation. It
// reports false if the command line is of another command, or has a flag that is no field.
func (o Operation) values(words, args []string) (values map[string]any, ok bool) {
	values = map[string]any{}
	for len(args) > 0 && args[0] != "--" {
		arg := args[0]
		args = args[1:]
		switch name, isFlag := strings.CutPrefix(arg, "--"); {
		case len(words) > 0 && words[0] == arg:
			words = words[1:]
		case isFlag:
			if args, ok = o.set(values, name, args); !ok {
				return nil, false
			}
		case len(words) == 0 || !strings.HasPrefix(words[0], "{"):
			return nil, false
		default:
			values[strings.Trim(words[0], "{}")] = arg
			words = words[1:]
		}
	}
	return values, len(words) == 0 || strings.HasPrefix(words[0], "{")
}

// set sets the field of a flag, and returns the arguments after its value.
func (o Operation) set(values map[string]any, name string, args []string) ([]string, bool) {
	field, ok := o.field(name)
	switch {
	case !ok:
		return nil, false
	case o.Fields[field]:
		values[field] = true
		return args, true
	case len(args) == 0:
		return nil, false
	}
	values[field] = args[0]
	return args[1:], true
}

// field returns the name of the field that a flag stands for. A flag that can be repeated
// has a field in the plural.
func (o Operation) field(flag string) (name string, ok bool) {
	for _, name := range []string{strings.ReplaceAll(flag, "-", "_"), strings.ReplaceAll(flag, "-", "_") + "s"} {
		if _, ok := o.Fields[name]; ok {
			return name, true
		}
	}
	return "", false
}
