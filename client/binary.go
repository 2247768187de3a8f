package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
)

// The files of a directory of this machine are sent to a daemon elsewhere, and written
// back, by the program forkcell: only it knows which files hold secrets and must stay,
// and it keeps the journal of what was written.

// sourceUpload begins the source of a cell whose files were sent.
const sourceUpload = "upload:"

// isSent reports whether the files of a cell were sent to a daemon elsewhere, so that
// the program on this machine has to write them back. Then it must be there.
func (c *Cell) isSent(ctx context.Context) (bool, error) {
	if c.client.Local() {
		return false, nil
	}
	status, err := c.Status(ctx)
	if err != nil || !strings.HasPrefix(status.Source, sourceUpload) {
		return false, err
	}
	_, err = c.client.findBinary()
	return true, err
}

// writesHere is isSent for a verb that the program carries out as a whole, which cannot be
// conditional.
func (c *Cell) writesHere(ctx context.Context, opts []CallOption) (bool, error) {
	sent, err := c.isSent(ctx)
	if !sent || err != nil {
		return sent, err
	}
	in, err := newCall(http.MethodPost, "", nil, opts)
	if err == nil && in.header.Get("If-Match") != "" {
		err = &Error{Kind: api.Usage, Code: api.CodeUsage, Message: "IfMatch is not possible where files are sent to " + c.client.where()}
	}
	return true, err
}

// flags collects the flags of a command line.
type flags []string

func (f *flags) text(name, value string) {
	if value != "" {
		*f = append(*f, "--"+name+"="+value)
	}
}

func (f *flags) list(name string, values []string) {
	for _, v := range values {
		*f = append(*f, "--"+name+"="+v)
	}
}

func (f *flags) on(name string, set bool) {
	if set {
		*f = append(*f, "--"+name)
	}
}

// sendDir makes a cell from a directory of this machine.
func (s *Cells) sendDir(ctx context.Context, dir string, r CreateCell) (*Cell, error) {
	if r.Sole {
		return nil, &Error{Kind: api.Usage, Code: api.CodeUsage, Message: "Sole is no setting of a directory that is sent to " + s.client.where()}
	}
	if r.Name == "" {
		r.Name = "cell-" + strings.ToLower(rand.Text()[:10])
	}
	args := flags{"init"}
	args.text("from", dir)
	args.text("backend", r.Backend)
	args.text("runtime", r.Runtime)
	args.text("mount-at", r.MountAt)
	args.list("exclude", r.Exclude)
	for key, value := range r.Labels {
		args.text("label", key+"="+value)
	}
	args.text("ttl", r.TTL)
	args.text("idle-timeout", r.IdleTimeout)
	args.text("on-timeout", r.OnTimeout)
	inputs := map[string]string{}
	if strings.ContainsAny(r.Policy, ":\n") {
		inputs["policy"] = r.Policy
	} else {
		args.text("policy", r.Policy)
	}
	made, err := byBinary[InitResult](ctx, s.client, args, r.Name, inputs)
	if err != nil {
		return nil, err
	}
	return &Cell{Name: made.Cell, Created: made, client: s.client}, nil
}

func (c *Cell) applyHere(ctx context.Context, r Apply) (*ApplyResult, error) {
	args := flags{"apply"}
	if r.To != "" {
		to, err := filepath.Abs(r.To)
		if err != nil {
			return nil, err
		}
		args.text("to", to)
	}
	args.on("dry-run", r.DryRun)
	args.list("only", r.Only)
	args.list("except", r.Except)
	args.text("on-conflict", r.OnConflict)
	args.list("allow-control", r.AllowControl)
	args.on("allow-setuid", r.AllowSetuid)
	return byBinary[ApplyResult](ctx, c.client, args, c.Name, nil)
}

func (c *Cell) undoHere(ctx context.Context, r Undo) (*ApplyResult, error) {
	args := flags{"apply", "--undo"}
	args.list("except", r.Except)
	args.text("on-conflict", r.OnConflict)
	args.on("dry-run", r.DryRun)
	return byBinary[ApplyResult](ctx, c.client, args, c.Name, nil)
}

func (c *Cell) refreshHere(ctx context.Context, r Refresh) (*RefreshResult, error) {
	args := flags{"refresh"}
	args.text("on-conflict", r.OnConflict)
	return byBinary[RefreshResult](ctx, c.client, args, c.Name, nil)
}

// byBinary runs a verb of the program forkcell on this machine for a cell, and returns its
// document. A verb can have both a document and an error. Inputs are the contents of
// files that flags name.
//
// The name of the cell may be a daemon's word: it stands after "--", so that it is never
// a flag.
func byBinary[T any](ctx context.Context, c *Client, verb flags, cell string, inputs map[string]string) (*T, error) {
	path, err := c.findBinary()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, "--url="+c.where(), "--json", "--quiet")
	cmd.Args = append(cmd.Args, verb...)
	if inputs = maps.Clone(inputs); inputs == nil {
		inputs = map[string]string{}
	}
	if c.token != "" {
		inputs["token-file"] = c.token + "\n"
	}
	for flag, text := range inputs {
		r, err := pipeOf(text)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		cmd.Args = append(cmd.Args, fmt.Sprintf("--%s=/dev/fd/%d", flag, 3+len(cmd.ExtraFiles)))
		cmd.ExtraFiles = append(cmd.ExtraFiles, r)
	}
	cmd.Args = append(cmd.Args, "--", cell)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	failed := cmd.Run()
	var doc *T
	if out.Len() > 0 {
		doc = new(T)
		if err := readDocument(out.Bytes(), doc); err != nil {
			return nil, &Error{Kind: api.Failed, Code: api.CodeProtocol, Message: path + ": unexpected output: " + err.Error(), Hint: "forkcell of another version may be installed"}
		}
	}
	if failed == nil && doc == nil {
		return nil, &Error{Kind: api.Failed, Code: api.CodeProtocol, Message: path + " printed no document", Hint: "forkcell of another version may be installed"}
	}
	return doc, binaryError(ctx, path, failed, errs.Bytes())
}

// pipeOf returns the end of a pipe to read a text from: nobody else sees it, as they
// would an argument or a file.
func pipeOf(text string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = w.WriteString(text) // a program that does not read it says why
		_ = w.Close()
	}()
	return r, nil
}

// binaryError returns the error that the program printed.
func binaryError(ctx context.Context, path string, failed error, printed []byte) error {
	if failed == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	var doc struct {
		Error struct {
			Kind    Kind     `json:"kind"`
			Code    Code     `json:"code"`
			Message string   `json:"message"`
			Hint    string   `json:"hint"`
			Details []string `json:"details"`
		} `json:"error"`
	}
	if err := readDocument(printed, &doc); err != nil || doc.Error.Code == "" {
		return &Error{Kind: api.Failed, Code: api.CodeProtocol, Message: path + ": " + failed.Error() + ": " + string(printed[:min(len(printed), 200)])}
	}
	return &Error{Kind: doc.Error.Kind.Known(), Code: doc.Error.Code, Message: doc.Error.Message, Hint: doc.Error.Hint, Details: doc.Error.Details}
}

// findBinary returns the path of the program.
func (c *Client) findBinary() (string, error) {
	path, err := exec.LookPath(c.binary)
	if err != nil {
		return "", &Error{
			Kind: api.Failed, Code: api.CodeNoLocalBinary, Message: "the files of this machine are sent to " + c.where() + " by the program forkcell: " + err.Error(),
			Hint: "install it, or use the daemon on the local socket, a directory of the daemon's machine, or an uploaded archive",
		}
	}
	return path, nil
}
