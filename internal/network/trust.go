package network

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/network/egress/authority"
)

// bundlePath is the path of the roots in every cell with a network.
const bundlePath = "/etc/ssl/certs/ca-certificates.crt"

// javaPassword is the default password of Java's trust stores.
const javaPassword = "changeit"

// maxStore bounds the size of the host's roots.
const maxStore = 16 << 20

// File is a file that replaces the host's in the cell, by its path in /etc.
type File struct {
	Name string
	Data []byte
}

// Files returns the trust stores of the cell: the host's, with the cell's
// authority added. Stores outside /etc are links into it, or are replaced by
// the variables of Environment.
func (g *Gateway) Files() ([]File, error) {
	host, err := hostBundle()
	if err != nil {
		return nil, err
	}
	bundle := g.ca.Bundle(host)
	files := map[string][]byte{bundlePath: bundle}
	for _, p := range authority.BundlePaths() {
		if isFile(p) {
			files[p] = bundle
		}
	}
	for _, dir := range authority.HashDirs() {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			files[dir+"/"+g.ca.HashedFile()] = g.ca.PEM()
		}
	}
	if err := g.javaStores(files); err != nil {
		return nil, err
	}
	var list []File
	for path, data := range files {
		if name, below := strings.CutPrefix(path, "/etc/"); below {
			list = append(list, File{Name: name, Data: data})
		}
	}
	return list, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// hostBundle returns the host's roots as PEM.
func hostBundle() ([]byte, error) {
	for _, p := range authority.BundlePaths() {
		data, err := readStore(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return data, err
	}
	return nil, nil
}

// readStore reads a trust store, with room for the cell's authority.
func readStore(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), maxStore)+authority.Room))
	_, err = data.ReadFrom(io.LimitReader(f, maxStore+1))
	if err == nil && data.Len() > maxStore {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxStore)
	}
	return data.Bytes(), err
}

// javaStores adds Java's trust stores, where the host has them in /etc.
func (g *Gateway) javaStores(files map[string][]byte) error {
	for _, pattern := range authority.JavaStorePaths() {
		if !strings.HasPrefix(pattern, "/etc/") {
			continue
		}
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, p := range paths {
			data, err := readStore(p)
			if err != nil {
				return err
			}
			store, err := g.ca.JavaStore(data, javaPassword)
			if errors.Is(err, authority.ErrJavaStore) {
				continue // Java then does not trust the cell's authority
			}
			if err != nil {
				return err
			}
			files[p] = store
		}
	}
	return nil
}
