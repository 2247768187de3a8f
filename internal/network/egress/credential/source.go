package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/hosttool"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Source is the place that a value is read from. It holds no secret.
type Source struct {
	kind sourceKind
	name string   // the variable, or the path
	key  string   // the place in a JSON file
	argv []string // the command
}

type sourceKind int

const (
	fromEnv sourceKind = iota + 1
	fromFile
	fromCommand
	fromJSON
)

// Bounds of a source.
const (
	defaultTimeout = 30 * time.Second
	maxArgs        = 256
)

// ErrSource is returned for a text that is not a source.
var ErrSource = errors.New(`a source is env:NAME, file:PATH, json:PATH#KEY.KEY or command:["PROGRAM", "ARGUMENT", ...]`)

// ParseSource reads `env:NAME`, `file:PATH`, `json:PATH#KEY.KEY` for a string in a
// file of JSON, or `command:` with a JSON array of strings, which is run without a
// shell.
func ParseSource(s string) (Source, error) {
	kind, rest, ok := strings.Cut(s, ":")
	if !ok || rest == "" || strings.ContainsRune(rest, 0) {
		return Source{}, ErrSource
	}
	switch kind {
	case "env":
		if strings.ContainsAny(rest, "= \t\r\n") {
			return Source{}, fmt.Errorf("%s is not the name of a variable", quote.Path(rest))
		}
		return Source{kind: fromEnv, name: rest}, nil
	case "file":
		return Source{kind: fromFile, name: rest}, nil
	case "json":
		at := strings.LastIndexByte(rest, '#')
		if at <= 0 || at+1 == len(rest) {
			return Source{}, ErrSource
		}
		return Source{kind: fromJSON, name: rest[:at], key: rest[at+1:]}, nil
	case "command":
		argv, err := parseArgv(rest)
		return Source{kind: fromCommand, argv: argv}, err
	}
	return Source{}, ErrSource
}

func parseArgv(s string) ([]string, error) {
	var raw []*string // null is not a string
	d := json.NewDecoder(strings.NewReader(s))
	if err := d.Decode(&raw); err != nil {
		return nil, ErrSource
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, ErrSource
	}
	var argv []string
	for _, a := range raw {
		if a == nil || strings.ContainsRune(*a, 0) {
			return nil, ErrSource
		}
		argv = append(argv, *a)
	}
	if len(argv) == 0 || argv[0] == "" || len(argv) > maxArgs {
		return nil, ErrSource
	}
	return argv, nil
}

// String returns the source for people. For a command it names only the
// program, since arguments may hold secrets.
func (s Source) String() string {
	switch s.kind {
	case fromEnv:
		return "env:" + s.name
	case fromFile:
		return "file:" + quote.Path(s.name)
	case fromJSON:
		return "json:" + quote.Path(s.name) + "#" + quote.Line(s.key)
	case fromCommand:
		return "command:" + quote.Path(s.argv[0])
	}
	return "no source"
}

// Reader reads values from sources, on the operator's side.
type Reader struct {
	// Env has the operator's variables, as K=V. Commands get them all.
	Env []string
	// Dir is the directory of relative paths and of commands.
	Dir string
	// Stderr receives the error output of commands, which may be a question to
	// the operator; nil drops it. It never becomes part of an error.
	Stderr io.Writer
	// Closed are directories in which no command is looked for.
	Closed hosttool.ExcludedDirs
	// OnlyFiles refuses the other sources.
	OnlyFiles bool
	// Timeout bounds each source; zero is defaultTimeout.
	Timeout time.Duration
}

// Read returns a source's value. It removes one line end at the end of a file
// or of a command's output.
func (r Reader) Read(ctx context.Context, s Source) (*Value, error) {
	timeout := r.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var b []byte
	var err error
	switch {
	case r.OnlyFiles && s.kind != fromFile && s.kind != fromJSON:
		err = errors.New("over the API only file:PATH works")
	case s.kind == fromEnv:
		b, err = r.env(s.name)
	case s.kind == fromFile:
		b, err = r.file(ctx, s.name)
	case s.kind == fromJSON:
		b, err = r.json(s.name, s.key)
	case s.kind == fromCommand:
		b, err = r.command(ctx, s.argv)
	default:
		err = ErrSource
	}
	if err != nil {
		clear(b)
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	v, err := NewValue(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return v, nil
}

func (r Reader) file(ctx context.Context, name string) ([]byte, error) {
	name, err := r.path(name)
	if err != nil {
		return nil, err
	}
	return readFile(ctx, name)
}

// path returns the absolute path of a file.
func (r Reader) path(name string) (string, error) {
	switch {
	case filepath.IsAbs(name):
		return name, nil
	case r.Dir == "":
		return "", errors.New("the path is relative, and there is no working directory")
	}
	return filepath.Join(r.Dir, name), nil
}

// maxJSON bounds a file of JSON.
const maxJSON = 1 << 20

// json returns a string in a file of JSON that is private to the caller.
func (r Reader) json(name, key string) ([]byte, error) {
	name, err := r.path(name)
	if err != nil {
		return nil, err
	}
	text, err := fsx.ReadOwn(name, 0o077, maxJSON)
	if err != nil {
		return nil, cause(err)
	}
	defer clear(text)
	var at any
	if json.Unmarshal(text, &at) != nil {
		return nil, errors.New("the file is not JSON")
	}
	for part := range strings.SplitSeq(key, ".") {
		object, _ := at.(map[string]any)
		at = object[part]
	}
	value, ok := at.(string)
	if !ok {
		return nil, errors.New("the file has no such string")
	}
	return []byte(value), nil
}

func (r Reader) env(name string) ([]byte, error) {
	v, ok := r.lookup(name)
	if !ok {
		return nil, errors.New("the variable is not set")
	}
	return []byte(v), nil
}

func (r Reader) lookup(name string) (string, bool) {
	for _, kv := range r.Env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// program finds a command along the operator's search path.
func (r Reader) program(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if path, err := hosttool.InEnv(r.Env, r.Closed).Look(name); err == nil {
		return path, nil
	}
	return "", exec.ErrNotFound
}

// readFile reads in the background, because opening a named pipe blocks until it
// has a writer. The goroutine stays until then.
func readFile(ctx context.Context, path string) ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		f, err := os.Open(path)
		if err != nil {
			done <- result{nil, cause(err)}
			return
		}
		defer f.Close()
		b, err := readValue(f)
		done <- result{b, cause(err)}
	}()
	select {
	case r := <-done:
		return r.b, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cause removes the path, which the source's text already contains.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// readValue reads one value with its line end into one buffer of full size, so
// that no smaller buffer keeps a part of it.
func readValue(r io.Reader) ([]byte, error) {
	buf := make([]byte, MaxValue+2)
	n, err := io.ReadFull(r, buf)
	switch {
	case err == nil:
		clear(buf)
		return nil, ErrTooLong
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		clear(buf)
		return nil, err
	}
	return bytes.TrimSuffix(buf[:n], []byte("\n")), nil
}

func (r Reader) command(outer context.Context, argv []string) ([]byte, error) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	program, err := r.program(argv[0])
	if err != nil {
		return nil, startError(err)
	}
	cmd := exec.CommandContext(ctx, program, argv[1:]...)
	cmd.Args[0], cmd.Env, cmd.Dir, cmd.Stderr = argv[0], hosttool.InEnv(r.Env, r.Closed).Env(r.Env), r.Dir, r.Stderr
	// A child of the command may hold the pipe open after the command's end.
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, startError(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = out.Close() })
	defer stop()
	b, err := readValue(out)
	if err != nil {
		cancel()
	}
	wait := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, ErrTooLong):
		return nil, err
	case outer.Err() != nil:
		clear(b)
		return nil, outer.Err()
	case err != nil:
		return nil, err
	case errors.As(wait, &exit):
		clear(b)
		return nil, fmt.Errorf("the command failed: %s", exit.ProcessState)
	case wait != nil:
		clear(b)
		return nil, wait
	}
	return b, nil
}

// startError removes the program's name, which the source's text already
// contains.
func startError(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return cause(err)
}
