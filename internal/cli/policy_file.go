package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/quote"
)

// maxPolicyFile is more than the language takes, so that the language says what
// is too large.
const maxPolicyFile = 2 << 20

// readPolicy reads a policy file that the operator names.
func readPolicy(command, name string) (*cell.PolicyFile, error) {
	text, err := readBounded(name, maxPolicyFile)
	if err != nil {
		return nil, usageError("give a policy file", "%s: policy %s: %v", command, quote.Path(name), err)
	}
	return &cell.PolicyFile{Name: name, Text: text}, nil
}

func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	if info.IsDir() {
		return nil, errors.New("it is a directory")
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

// policyRef takes an argument for a file if there is one of that name, else for
// a cell.
func policyRef(command, arg string) (cell.PolicyRef, error) {
	info, err := os.Stat(arg)
	if err != nil || info.IsDir() {
		return cell.PolicyRef{Cell: arg}, nil
	}
	file, err := readPolicy(command, arg)
	return cell.PolicyRef{File: file}, err
}
