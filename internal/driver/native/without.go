//go:build !probes

package native

import "github.com/forkcell/forkcell/internal/driver"

// without is empty in this build: no control can be left off. With the tag probes
// it lists controls to leave off, for the tests that show what each of them stops.
type without struct{}

func (without) has(driver.Control) bool { return false }

func (without) fields(*wire) {}

func (without) weaken(*spawnConfig) (env []string) { return []string{} }

func (without) ownMounts() error { return nil }

func (without) keepCapabilities(identity) error { return nil }

func (without) allowSUID(*rootfs) error { return nil }

func (without) systemAttr() uint64 { return attrSystem }
