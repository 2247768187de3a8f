package authority

import (
	"crypto/sha1" //nolint:gosec // the format has it, against damage
	"crypto/x509"
	"encoding/binary"
	"errors"
	"unicode/utf16"
)

// The parts of a store in Java's own format (JKS): the header before the
// entries, and the digest after them.
const (
	jksMagic  = 0xfeedfeed
	jksHeader = 12
	jksTag    = 2 // of an entry that is a trusted certificate
)

// withEntry returns a store with one more entry, for a store that holds only
// certificates. Parsing and rebuilding a store with the library takes
// milliseconds at the start of every run. The digest of the old store is not
// verified, because that takes almost as long as computing the new one; Java
// does not verify it either unless it has the password. The new store is in the
// memory of the old one, if that has [Room] at its end.
func withEntry(b []byte, password, alias string, cert *x509.Certificate) ([]byte, bool) {
	if len(b) < jksHeader+sha1.Size || len(b) > maxStore || binary.BigEndian.Uint32(b) != jksMagic {
		return nil, false
	}
	version := binary.BigEndian.Uint32(b[4:])
	keys, err := checkLengths(b)
	if err != nil || keys || version != 2 {
		return nil, false
	}
	out := b[:len(b)-sha1.Size]
	binary.BigEndian.PutUint32(out[8:], binary.BigEndian.Uint32(out[8:])+1)
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

// jksDigest returns the digest at the end of a store. The format defines the
// salt.
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

// checkLengths walks over a store in Java's own format (JKS), fails if a length
// exceeds the store, and reports whether there are keys. The library that reads
// stores trusts a length of four bytes and allocates that much, so a few bytes
// from an untrusted root could make it allocate gigabytes.
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

// walker moves over bytes and records when there are too few.
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
