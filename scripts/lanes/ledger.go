package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// entry says that a lane passed with these inputs.
type entry struct{ hash, day string }

// ledger has the lanes that passed, by target.
type ledger map[string]entry

// readLedger reads the lines `TARGET HASH DAY` of a file. Without the file nothing has
// passed.
func readLedger(file string) (ledger, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	passed := ledger{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s: malformed line %q", file, strings.TrimSpace(line))
		}
		passed[fields[0]] = entry{fields[1], fields[2]}
	}
	return passed, nil
}

func (l ledger) write(file string) error {
	var b strings.Builder
	for _, target := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(&b, "%s %s %s\n", target, l[target].hash, l[target].day)
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// hash returns the hash of the inputs of a lane, as git has them in a directory: of
// names, modes and contents.
func (l lane) hash(ctx context.Context, dir string) (string, error) {
	built, err := trackedFiles(ctx, dir, program)
	if err != nil {
		return "", err
	}
	own, err := trackedFiles(ctx, dir, l.inputs)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(slices.Concat(built, []byte{0}, own))
	return hex.EncodeToString(sum[:16]), nil
}

// trackedFiles lists the files that patterns select, one line each. Without patterns there are
// none.
func trackedFiles(ctx context.Context, dir string, patterns []string) ([]byte, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	var problem bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", append([]string{"ls-files", "--stage", "--"}, patterns...)...)
	cmd.Dir, cmd.Stderr = dir, &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w: %s", err, strings.TrimSpace(problem.String()))
	}
	return out, nil
}
