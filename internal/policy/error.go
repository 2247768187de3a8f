package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// Problem is one thing that is wrong with a policy file.
type Problem struct {
	File string `json:"file"`
	// Line and Column count from 1.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path is the key, as in "limits.memory"; empty for the document itself.
	Path    string `json:"path"`
	Message string `json:"message"`
}

// String returns the problem on one line.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", quote.Path(p.File), p.Line, p.Column, p.Message)
}

// maxProblems bounds the problems that are reported for one file.
const maxProblems = 100

// Error lists everything that is wrong with a policy file, by position.
type Error struct {
	Problems []Problem
	// More counts the problems after the last one that is listed.
	More int
}

// Error returns one line for each problem. The first is complete by itself.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

func newError(problems []Problem, dropped int) *Error {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	seen := make(map[Problem]bool, len(problems))
	problems = slices.DeleteFunc(problems, func(p Problem) bool {
		dup := seen[p]
		seen[p] = true
		return dup
	})
	e := &Error{Problems: problems, More: dropped}
	if len(problems) > maxProblems {
		e.Problems, e.More = problems[:maxProblems], dropped+len(problems)-maxProblems
	}
	return e
}

// show quotes untrusted text for a message: short, on one line, without control
// characters.
func show(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return `"` + quote.Line(s) + `"`
}
