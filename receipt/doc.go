// Package receipt is the evidence of Forkcell: its signed statements,
// how they are made, and how anyone can check them.
//
// Every change of a home (the directory in which Forkcell keeps its state) is
// one in-toto Statement v1 in a DSSE envelope, signed with Ed25519. There are
// four kinds, distinguished by their predicate:
//
//   - [Run] is the receipt of one run: the state before and after, the command,
//     the controls, the outcome and the decision that a flag made at once.
//   - [Decision] is a later decision about a receipt.
//   - [Change] is any other change of a cell: init, fork, rename, apply, ...
//   - [Rotation] replaces the signing key; the old and the new key both sign.
//
// # Order
//
// The statements of a home are one log. [Link] carries the place in it: a
// sequence number without gaps, the SHA-256 of the previous envelope of the
// log, and the SHA-256 of the previous envelope of the same cell. Times are
// recorded but never used for order, so a clock that jumps does no harm.
// [VerifyChain] checks a whole log in one pass; [Chain] does the same step by
// step for callers who want to see each statement as it is checked.
//
// # Exact bytes
//
// An envelope is its bytes. It is hashed, stored, sent and verified as they
// are, and never encoded again. Reading is strict: unknown, missing and repeated
// fields, trailing data, odd spellings of numbers and times, and anything above
// [MaxEnvelope] are [ErrMalformed].
//
// # Trust
//
// Trust starts from public keys that the caller names in a [KeySet], and from
// nothing else. A key that travels with a statement is never trusted for that;
// a [Rotation] signed by a trusted key passes the trust on. Errors say which
// kind of doubt there is: [ErrUntrusted], [ErrBadSignature], [ErrMalformed] or
// [ErrChain].
//
// # Bundles
//
// A [Bundle] is one JSON document with a receipt and what surrounds it, to be
// checked offline on another machine by [VerifyBundle]. Its report names every
// hash that the receipt binds as verified, not included or mismatched: what is
// not in the bundle is never passed over in silence.
//
// # What this package must not know
//
// It knows nothing of sandboxes, databases or file trees and links none of
// them, so that a verifier can import it alone. The format is described for
// other languages in docs/formats/receipt.md.
package receipt
