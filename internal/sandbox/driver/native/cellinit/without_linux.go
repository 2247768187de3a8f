//go:build !probes

package cellinit

import (
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// No control can be left off in this build. The other build, for tests, does
// something else in these places.

// preparesEarly reports that the first process prepares what every cell has before
// it gets its plan.
const preparesEarly = true

func ownMounts(protocol.Without) error { return nil }

func keepCapabilities(protocol.Identity, protocol.Without) error { return nil }

func allowSUID(*rootfs) error { return nil }

// SystemAttr returns the attributes that directories of the host are shown with.
func SystemAttr(protocol.Without) uint64 { return mountfd.AttrSystem }
