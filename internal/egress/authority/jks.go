package authority

import (
	"crypto/sha1" //nolint:gosec // the format has it, against damage
	"crypto/x509"
	"encoding/binary"
	"errors"
	"unicode/utf16"
)

// The parts of a store in Java's own format (JKS): what stands before the
// entries, and the digest behind them.
const (
	jksMagic  = 0xfeedfeed
	jksHeader = 12
	jksTag    = 2 // of an entry that is a trusted certificate
)

// appended is a store with one more entry, for one that has nothing but
// certificates. To take a store to pieces and to put it together again, as the
// library does, takes milliseconds at the start of every run. Its digest is not
// compared, which takes almost as long as to make the new one: Java does not
// either, unless it is told the password.
func appended(b []byte, password, alias string, cert *x509.Certificate) ([]byte, bool) {
	if len(b) < jksHeader+sha1.Size || len(b) > maxStore || binary.BigEndian.Uint32(b) != jksMagic {
		return nil, false
	}
	version, entries := binary.BigEndian.Uint32(b[4:]), b[:len(b)-sha1.Size]
	keys, err := checkLengths(b)
	if err != nil || keys || version != 2 {
		return nil, false
	}
	out := make([]byte, 0, len(b)+len(alias)+len(cert.Raw)+64)
	out = append(out, entries...)
	binary.BigEndian.PutUint32(out[8:], binary.BigEndian.Uint32(b[8:])+1)
	out = binary.BigEndian.AppendUint32(out, jksTag)
	out = jksText(out, alias)
	out = binary.BigEndian.AppendUint64(out, uint64(cert.NotBefore.UnixMilli()))
	out = jksText(out, "X.509")
	out = binary.BigEndian.AppendUint32(out, uint32(len(cert.Raw)))
	out = append(out, cert.Raw...)
	sum := jksDigest(out, password)
	return append(out, sum[:]...), true
}

func jksText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

// jksDigest is what a store ends with. The words are those that its makers chose.
func jksDigest(b []byte, password string) [sha1.Size]byte {
	h := sha1.New() //nolint:gosec // see above
	for _, c := range utf16.Encode([]rune(password)) {
		h.Write([]byte{byte(c >> 8), byte(c)})
	}
	h.Write([]byte("Mighty Aphrodite"))
	h.Write(b)
	return [sha1.Size]byte(h.Sum(nil))
}

var errLengths = errors.New("its lengths do not add up")

// checkLengths walks over a store in Java's own format (JKS) and fails unless
// every length in it stays within it. It tells whether there are keys. The library that reads stores takes a
// length of four bytes at its word and makes room for it, so that a few bytes
// from a root that somebody else made could ask for gigabytes.
func checkLengths(b []byte) (keys bool, err error) {
	w := walker{b: b}
	w.skip(4) // magic
	version := w.number(4)
	if version != 1 && version != 2 {
		return false, errors.New("an unknown version")
	}
	for n := w.number(4); n > 0 && !w.short; n-- {
		kind := w.number(4)
		w.skip(w.number(2)) // alias
		w.skip(8)           // date
		certificates := uint64(1)
		switch kind {
		case 1: // a private key, and its certificates
			keys = true
			w.skip(w.number(4))
			certificates = w.number(4)
		case jksTag:
		default:
			return false, errors.New("an unknown kind of entry")
		}
		for ; certificates > 0 && !w.short; certificates-- {
			if version == 2 {
				w.skip(w.number(2)) // type
			}
			w.skip(w.number(4))
		}
	}
	w.skip(20) // digest
	if w.short || len(w.b) > 0 {
		return false, errLengths
	}
	return keys, nil
}

// walker goes over bytes and notes when there are too few.
type walker struct {
	b     []byte
	short bool
}

func (w *walker) skip(n uint64) {
	if w.short || n > uint64(len(w.b)) {
		w.short = true
		return
	}
	w.b = w.b[n:]
}

func (w *walker) number(size int) uint64 {
	if len(w.b) < size {
		w.short = true
	}
	if w.short {
		return 0
	}
	var full [8]byte
	copy(full[8-size:], w.b[:size])
	w.b = w.b[size:]
	return binary.BigEndian.Uint64(full[:])
}
