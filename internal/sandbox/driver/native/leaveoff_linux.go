//go:build !probes

package native

import (
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/spawn"
)

// leaveOff leaves every control on in this build.
func leaveOff(*spawn.Config, protocol.Without) (env []string) { return []string{} }
