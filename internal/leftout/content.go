package leftout

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
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
	if err != nil || len(b) > maxPEM || bytes.IndexByte(b, 0) >= 0 || bytes.Contains(bytes.ToUpper(b), []byte("PRIVATE KEY")) {
		return false, err
	}
	const mark = "-----BEGIN"
	parts := strings.Split(string(b), mark)
	for _, rest := range parts[1:] {
		kind, _, ended := strings.Cut(rest, "-----")
		if !ended || !slices.Contains(publicBlocks(), strings.TrimSpace(kind)) {
			return false, nil
		}
	}
	return len(parts) > 1, nil
}

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
