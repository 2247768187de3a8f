package main

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// authorityKey identifies the key of a cell's authority by its public half, and
// directly once it was found.
type authorityKey struct {
	public []byte
	// forms are spellings of the key; none if it is not known.
	forms [][]byte
}

// keyOf finds the certificate of the cell's authority in what the cell sees.
func keyOf(t *testing.T, seen []byte) *authorityKey {
	t.Helper()
	for block, rest := pem.Decode(seen); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || !bytes.Contains(block.Bytes, []byte("forkcell-box ")) {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Error(err)
			return nil
		}
		public, ok := cert.PublicKey.(*ecdsa.PublicKey)
		if !ok || !cert.IsCA {
			t.Errorf("the authority is %v with %T", cert.Subject, cert.PublicKey)
			return nil
		}
		k := &authorityKey{}
		if k.public, err = public.Bytes(); err != nil {
			t.Error(err)
			return nil
		}
		return k
	}
	t.Errorf("no certificate of the cell in the %d bytes that it sees", len(seen))
	return nil
}

// fits reports whether a scalar is the key.
func (k *authorityKey) fits(scalar []byte) bool {
	key, err := ecdh.P256().NewPrivateKey(scalar)
	return err == nil && bytes.Equal(key.PublicKey().Bytes(), k.public)
}

// recover looks for the key in a process's memory. That also shows that the
// search finds a key.
func (k *authorityKey) recover(t *testing.T, pid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	var scalar []byte
	tried := 0
	heap(t, pid, func(b []byte) bool {
		// Go aligns what is that large.
		for i := 0; i+32 <= len(b) && scalar == nil; i += 32 {
			if s := b[i : i+32]; random(s) {
				tried++
				if k.fits(s) {
					scalar = slices.Clone(s)
				} else if s = turned(s); k.fits(s) {
					scalar = s
				}
			}
		}
		return scalar == nil
	})
	if scalar == nil {
		t.Errorf("of %d candidates in the memory of the run's own process none is the key", tried)
		return
	}
	digits := hex.EncodeToString(scalar)
	k.forms = [][]byte{
		scalar, turned(scalar), []byte(digits), []byte(strings.ToUpper(digits)),
		[]byte(new(big.Int).SetBytes(scalar).String()), []byte(strings.Trim(fmt.Sprint(scalar), "[]")),
	}
	for shift := range 3 {
		text := base64.RawStdEncoding.EncodeToString(slices.Concat(make([]byte, shift), scalar))
		k.forms = append(k.forms, []byte(text[4:len(text)-4])) // without what neighbours may change
	}
}

func turned(b []byte) []byte {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}

// random reports whether 32 bytes could be random: not text, small numbers or
// addresses. It is wrong for one key in a million.
func random(b []byte) bool {
	for i := 0; i < 32; i += 8 {
		if binary.LittleEndian.Uint64(b[i:])>>40 == 0 {
			return false
		}
	}
	high := 0
	for _, c := range b {
		high += int(c >> 7)
	}
	return high >= 4
}

// absent checks that bytes do not hold the key: neither in a form that is known,
// nor as an encoded key that fits the certificate.
func (k *authorityKey) absent(t *testing.T, where string, data []byte) {
	t.Helper()
	if k.within(data) {
		t.Errorf("%s holds the key of the cell's authority", where)
	}
}

func (k *authorityKey) within(data []byte) bool {
	for _, form := range k.forms {
		if bytes.Contains(data, form) {
			return true
		}
	}
	if k.encoded(data) {
		return true
	}
	// Lines are joined, and so are those of a text within JSON.
	for _, gone := range []string{"\r", "\n", `\n`} {
		data = bytes.ReplaceAll(data, []byte(gone), nil)
	}
	data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("-"), []byte("+")), []byte("_"), []byte("/"))
	for text := range runs(data, isBase64, 43) {
		// Where it begins in a longer text of the same letters is not known.
		for start := range 4 {
			part := text[start:]
			b := make([]byte, len(part)/4*3)
			if _, err := base64.RawStdEncoding.Decode(b, part[:len(part)&^3]); err == nil && k.encoded(b) {
				return true
			}
		}
	}
	for text := range runs(data, isHex, 64) {
		b := make([]byte, len(text)/2)
		if _, err := hex.Decode(b, text[:len(text)&^1]); err == nil && (k.encoded(b) || k.fits(b)) {
			return true
		}
	}
	return false
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func isBase64(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '+' || c == '/'
}

// runs are the longest pieces of at least some length with certain bytes only.
func runs(data []byte, fits func(byte) bool, least int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start := 0
		for i := 0; i <= len(data); i++ {
			if i < len(data) && fits(data[i]) {
				continue
			}
			if i-start >= least && !yield(data[start:i]) {
				return
			}
			start = i + 1
		}
	}
}

// encoded looks for the key in PKCS#8 and SEC 1: both hold it as a string of 32
// bytes, behind a tag and this length.
func (k *authorityKey) encoded(data []byte) bool {
	for {
		i := bytes.Index(data, []byte{0x04, 0x20})
		if i < 0 || len(data) < i+34 {
			return false
		}
		data = data[i+2:]
		if k.fits(data[:32]) {
			return true
		}
	}
}

// absentBelow checks every file below a directory.
func (k *authorityKey) absentBelow(t *testing.T, when, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil // gone meanwhile, or the kernel's own directory of an overlay
		case err != nil || !d.Type().IsRegular():
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files++
		k.absent(t, when+" "+path, data)
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%s: %d files were looked at: %v", when, files, err)
	}
}

// absentInFamily checks the memory of all processes that one has started, and
// what they were started with.
func (k *authorityKey) absentInFamily(t *testing.T, pid int) {
	t.Helper()
	parents := processes()
	family := 0
	for p := range parents {
		for up := parents[p]; up > 1; up = parents[up] {
			if up != pid {
				continue
			}
			family++
			for _, name := range []string{"cmdline", "environ"} {
				data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p, name)) // as far as it may be read
				k.absent(t, fmt.Sprintf("%s of process %d", name, p), data)
			}
			if len(k.forms) > 0 {
				heap(t, p, func(b []byte) bool {
					found := slices.ContainsFunc(k.forms, func(form []byte) bool { return bytes.Contains(b, form) })
					if found {
						t.Errorf("the memory of process %d holds the key", p)
					}
					return !found
				})
			}
			break
		}
	}
	if family < 2 {
		t.Errorf("%d processes in the cell", family)
	}
}
