package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// shape is a tree of files: dirs directories of perDir small files each, and
// some large ones at the top.
type shape struct {
	name   string
	dirs   int
	perDir int
	large  int
}

const (
	smallSize = 1536
	largeSize = 1 << 20
)

func (s shape) files() int { return s.dirs*s.perDir + s.large }

func shapes() (small, medium, big shape) {
	return shape{"t500", 50, 10, 0}, shape{"t6024", 100, 60, 24}, shape{"t100k", 1000, 100, 0}
}

// build writes the tree; equal shapes get equal contents.
func (s shape) build(root string) error {
	random := rand.NewChaCha8([32]byte{1})
	write := func(path string, size int) error {
		data := make([]byte, size)
		_, _ = random.Read(data)
		return os.WriteFile(path, data, 0o644)
	}
	for d := range s.dirs {
		dir := filepath.Join(root, fmt.Sprintf("d%d", d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for f := range s.perDir {
			if err := write(filepath.Join(dir, fmt.Sprintf("f%d", f)), smallSize); err != nil {
				return err
			}
		}
	}
	for l := range s.large {
		if err := write(filepath.Join(root, fmt.Sprintf("large%d", l)), largeSize); err != nil {
			return err
		}
	}
	return nil
}

// changes is the command that is measured: the same 175 changes on every tree
// (in 25 directories 4 files modified, 2 added, 1 deleted), then it fails. It
// starts no process, so that the file system is what it spends its time on.
const changes = `d=0
while [ $d -lt 25 ]; do
	cd d$d || exit 9
	for f in f0 f1 f2 f3; do echo changed >> $f; done
	echo new > new0; echo new > new1
	set -- "$@" d$d/f4
	cd ..
	d=$((d+1))
done
rm "$@"
exit 1`
