package session

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
)

// seedLimit is how long the files of an agent may take to write.
const seedLimit = time.Minute

// seed writes the agent's files to the home of a live cell. A shell in the cell writes
// them, because only there the placeholders are known.
func seed(ctx context.Context, e Engine, name string, p *Plan) error {
	script, err := p.script()
	if err != nil || script == "" {
		return err
	}
	complaints := &tail{}
	res, err := e.Exec(ctx, api.ExecRequest{Cell: name, Args: api.Texts{"sh", "-s"}, Workdir: Home, Timeout: seedLimit}, engine.Stdio{In: strings.NewReader(script), Out: complaints, Err: complaints})
	if err == nil && res.ExitCode != 0 {
		err = errors.New(complaints.line())
	}
	if err != nil {
		return api.Failf(api.CodeSession, err, "write the files of agent %s", p.Terms.Agent)
	}
	return nil
}

// script returns the shell commands that write the agent's files; "" if it has none.
func (p *Plan) script() (string, error) {
	var keys []string
	for _, c := range p.UsedCredentials {
		keys = append(keys, c.Key)
	}
	files := p.adapter.FilesFor(p.Terms.Autonomy, keys)
	masks, target := p.masksText(), credentials.Document(p.Terms.Agent)
	if target == "" {
		masks = ""
	}
	if len(files)+len(p.grant.Files)+len(masks) == 0 {
		return "", nil
	}
	var b strings.Builder
	b.WriteString(seedBegin)
	for _, f := range p.grant.Files {
		if bytes.IndexByte(f.Text, 0) >= 0 {
			return "", api.Refusef(api.CodeCredential, "", "the file for %s is no text", f.Path)
		}
		text := string(f.Text)
		if f.Path == target && masks != "" {
			text, masks = strings.TrimRight(text, "\n")+"\n\n"+masks, ""
		}
		file := Home + "/" + f.Path
		b.WriteString(place(f.Path) + "printf %s " + quoted(text) + " > " + quoted(file) + "\n")
	}
	if masks != "" {
		file := quoted(Home + "/" + target)
		b.WriteString(directories(target) + "[ -e " + file + " ] || [ -L " + file + " ] || printf %s " + quoted(masks) + " > " + file + "\n")
	}
	for _, f := range files {
		parts, err := f.Parts()
		if err != nil {
			return "", err
		}
		file := Home + "/" + f.Path
		b.WriteString(place(f.Path) + "{\n")
		for _, part := range parts {
			command, err := p.print(part, keys)
			if err != nil {
				return "", api.Failf(api.CodeSession, err, "agent %s: %s", p.Terms.Agent, f.Path)
			}
			b.WriteString(command + "\n")
		}
		b.WriteString("} > " + quoted(file) + "\n")
	}
	return b.String(), nil
}

// seedBegin has the shell fail when a file exists that it is about to write, and defines
// dir, which makes a directory in place of whatever else has its name. The home may be that
// of earlier commands: nothing of theirs redirects a file or keeps the shell waiting.
const seedBegin = `umask 077
set -eC
dir() { [ -d "$1" ] && [ ! -L "$1" ] || { rm -f -- "$1"; mkdir -- "$1"; }; }
`

// masksText lists for the agent the files of the workspace that it does not see as they are; ""
// if nothing is masked.
func (p *Plan) masksText() string {
	if len(p.Masked) == 0 {
		return ""
	}
	return "# Masked files\n\n" +
		"You work in a Forkcell session, on a copy of the repository. Files that configure agents, editors and git are hidden, empty or\n" +
		"read-only in it on purpose, among them `" + strings.Join(p.Masked, "`, `") + "`. What you write there does not reach the repository.\n" +
		"If git shows such a file as deleted or changed, leave it out of your commits, and do not restore it. `git checkout`, `git stash`\n" +
		"and `git reset --hard` fail where they would write one.\n"
}

// place returns the commands that make the directories above a file in the home, and
// remove the file.
func place(file string) string { return directories(file) + "rm -f -- " + quoted(Home+"/"+file) + "\n" }

func directories(file string) string {
	var b strings.Builder
	for i, c := range file {
		if c == '/' {
			b.WriteString("dir " + quoted(Home+"/"+file[:i]) + "\n")
		}
	}
	return b.String()
}

// tailLength is how much of a placeholder the mark of its tail has.
const tailLength = 20

// print returns the shell command that prints one part of a file.
func (p *Plan) print(part adapter.Part, keys []string) (string, error) {
	text := func(s string) string { return "printf %s " + quoted(s) }
	value := func(key string) (string, error) {
		c, _ := p.adapter.Credential(key)
		if c.Variable == "" || !slices.Contains(keys, key) {
			return "", errors.New("it needs the credential " + key)
		}
		return `printf %s "$` + c.Variable + `"`, nil
	}
	if key, ok := strings.CutPrefix(part.Mark, adapter.MarkPlaceholder); ok {
		return value(key)
	}
	if key, ok := strings.CutPrefix(part.Mark, adapter.MarkTail); ok {
		command, err := value(key)
		return command + " | tail -c " + strconv.Itoa(tailLength), err
	}
	switch part.Mark {
	case "":
		return text(part.Text), nil
	case adapter.MarkWorkspace:
		return text(adapter.Quote(p.Workspace)), nil
	case adapter.MarkHome:
		return text(Home), nil
	case adapter.MarkTool:
		return text(adapter.Quote(p.toolCommand())), nil
	default: // agent.MarkTurn
		return text(adapter.Quote(p.turnCommand())), nil
	}
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// tail keeps the end of what a command printed.
type tail struct{ text []byte }

const tailBytes = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(b), nil
}

func (t *tail) line() string { return strings.Join(strings.Fields(string(t.text)), " ") }
