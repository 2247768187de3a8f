package secretfiles

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"sync"
)

// maxPEM is the largest file whose contents are checked. A bundle of all public
// authorities has about 250 KB.
const maxPEM = 1 << 20

// byContent lists the secret rules that leave a file out only if it may hold a
// private key: public certificates have such names, too.
func byContent() []string { return []string{"*.pem", "*.key"} }

// publicBlocks are the types of PEM blocks that hold nothing secret.
func publicBlocks() []string {
	return []string{
		"CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE", "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST", "X509 CRL", "PKCS7", "CMS",
		"PUBLIC KEY", "RSA PUBLIC KEY", "DSA PUBLIC KEY", "EC PUBLIC KEY", "SSH2 PUBLIC KEY", "DH PARAMETERS", "X9.42 DH PARAMETERS",
		"EC PARAMETERS", "DSA PARAMETERS", "OCSP RESPONSE",
	}
}

// isPublic reports whether a file is text with PEM blocks that are all public. A
// file with an unknown block, without blocks, or that is too large does not count
// as public.
func isPublic(r io.Reader) (bool, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxPEM+1))
	if err != nil || len(b) > maxPEM || bytes.IndexByte(b, 0) >= 0 {
		return false, err
	}
	marks := blockMark().FindAllSubmatch(b, -1)
	for _, m := range marks {
		if kind := string(bytes.TrimSpace(m[1])); len(m[2]) == 0 || !slices.Contains(publicBlocks(), kind) {
			return false, nil
		}
	}
	return len(marks) > 0, nil
}

// blockMark finds the lines in which blocks begin and end, also those that are written
// carelessly. The text between blocks may say anything.
var blockMark = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)--\s*(?:BEGIN|END)([^-]*)(-*)`)
})

// Reading returns the filter with a function that opens files: for names that both
// private keys and public certificates have, the contents then decide. Paths are
// those of Decide.
func (f *Filter) Reading(open func(path string) (*os.File, error)) *Filter {
	read := *f
	read.open = open
	return &read
}

// public reports whether a file that a rule matches holds nothing secret. A file
// that cannot be read stays left out.
func (f *Filter) public(path, rule string) bool {
	if f.open == nil || !slices.Contains(byContent(), rule) {
		return false
	}
	file, err := f.open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	yes, err := isPublic(file)
	return yes && err == nil
}
