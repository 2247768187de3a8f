package mcp

import (
	"regexp"

	"github.com/forkcell/forkcell/internal/api"
)

// commandLine matches what a hint says to a person at a shell.
var commandLine = regexp.MustCompile("forkcell [a-z]|(^|[ `(])--[a-z]")

// toolHints say what a model can do about an error, with tools and their arguments.
func toolHints() map[api.Code]string {
	return map[api.Code]string{
		api.CodeNotFound:   "cell_list lists the cells, and events what their runs did",
		api.CodeLive:       "exec runs a command in it, and stop ends it",
		api.CodeNotStarted: "start makes it live",
		api.CodePaused:     "resume continues it",
		api.CodeBusy:       "try again when the other command has ended",
		api.CodeNameTaken:  "choose another name",
		api.CodeConflict:   "the details list the paths; except leaves some out, and on_conflict decides about all",
		api.CodeHeldBack:   "the details list the files; except leaves some out, and allow_control allows them",
		api.CodeNoSource:   "to names a directory",
		api.CodePending:    "a person decides about it, or accept and reject if they are among the tools",
		api.CodeFailedRun:  "force accepts it",
	}
}

// hintOf returns the hint about an error for a model. A hint about the command line is
// replaced, and left as it is if there is no other.
func hintOf(code api.Code, hint string) string {
	if other, ok := toolHints()[code]; ok && commandLine.MatchString(hint) {
		return other
	}
	return hint
}
