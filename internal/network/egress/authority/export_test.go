package authority

import (
	"crypto/ecdsa"
	"time"
)

// NewAt makes an authority with a clock of the test's own.
func NewAt(cellName string, now func() time.Time) (*Authority, error) { return newAt(cellName, now) }

// MaxLeaves is the bound of the cache.
const MaxLeaves = maxLeaves

// Kept returns how many leaves are in the cache.
func (a *Authority) Kept() int { return a.used.Len() }

// Key returns the authority's private key, which it never exports.
func (a *Authority) Key() *ecdsa.PrivateKey { return a.key }
