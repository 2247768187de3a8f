package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy/preset"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxPolicyFile is more than the policy language accepts, so that the language
// reports a file that is too large.
const maxPolicyFile = 2 << 20

// readPolicy reads a policy file that the operator names, or a preset if no such
// file exists.
func (s *frame) readPolicy(command, name string) (*api.PolicyFile, error) {
	text, err := readBounded(name, maxPolicyFile)
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDirectory)) && preset.Known(name) {
		return s.readPreset(name), nil
	}
	if err != nil {
		return nil, usageError("give a policy file, or one that `forkcell policy list` names", "%s: policy %s: %v", command, quote.Path(name), err)
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, usageError("", "%s: policy %s: %v", command, quote.Path(name), err)
	}
	return &api.PolicyFile{Name: api.Text(name), Text: text, Path: api.Text(path)}, nil
}

// readPreset reads a preset that is known.
func (s *frame) readPreset(name string) *api.PolicyFile {
	// Queries of the host's tools have their own time-outs.
	text, registries := preset.Text(context.Background(), name, s.host().Env, s.writtenDirs)
	file := &api.PolicyFile{Name: api.Text("preset " + name), Text: text}
	for _, r := range registries {
		file.Resolve = append(file.Resolve, engine.RegistryPins(r.Host, r.Port, r.Addrs)...)
	}
	return file
}

var errDirectory = errors.New("it is a directory")

func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, quote.Cause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, quote.Cause(err)
	}
	if info.IsDir() {
		return nil, errDirectory
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("larger than %s", size(limit))
	}
	return data, nil
}

// policyRef resolves an argument to a file if one exists, or else to a cell, or
// else to a preset.
func (s *frame) policyRef(command, arg string) (engine.PolicyRef, error) {
	info, err := os.Stat(arg)
	if err != nil || info.IsDir() {
		ref := engine.PolicyRef{Cell: arg}
		if preset.Known(arg) {
			ref.Otherwise = func() *api.PolicyFile { return s.readPreset(arg) }
		}
		return ref, nil
	}
	file, err := s.readPolicy(command, arg)
	return engine.PolicyRef{File: file}, err
}
