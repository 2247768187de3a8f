package receipt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// eventDomain keeps the hashes of events apart from every other use of SHA-256.
const eventDomain = "forkcell.event.chain.v1\x00"

// EventChain recomputes what a receipt says of a journal of events: the number
// of its lines, and the hash of their chain. What the lines say is not looked
// at: the hash stands for every byte of them.
func EventChain(journal []byte) (count int64, head string, err error) {
	var sum [sha256.Size]byte
	for len(journal) > 0 {
		line, rest, whole := bytes.Cut(journal, []byte{'\n'})
		if !whole {
			return count, "", errors.New("the last event is incomplete")
		}
		h := sha256.New()
		h.Write([]byte(eventDomain))
		h.Write(sum[:])
		h.Write(line)
		h.Sum(sum[:0])
		count++
		journal = rest
	}
	return count, hex.EncodeToString(sum[:]), nil
}

// checkEvents compares the journal, where the bundle has it, with its hash.
func (v *bundleCheck) checkEvents() {
	const name = "events.chain_head"
	want, journal := v.report.Run.Events, v.bundle.Events
	switch {
	case want.ChainHead == "" && len(journal) == 0:
		return
	case want.ChainHead == "":
		v.add("events", Hash(journal), Mismatch, "nothing binds them")
		return
	case len(journal) == 0 && want.Count > 0:
		v.add(name, want.ChainHead, NotIncluded, "")
		return
	}
	count, head, err := EventChain(journal)
	switch {
	case err != nil:
		v.add(name, want.ChainHead, Mismatch, err.Error())
	case head != want.ChainHead:
		v.add(name, want.ChainHead, Mismatch, "the events have another hash")
	case count != want.Count:
		v.add(name, want.ChainHead, Mismatch, fmt.Sprintf("%d events, the receipt says %d", count, want.Count))
	default:
		v.add(name, want.ChainHead, Verified, "")
	}
}
