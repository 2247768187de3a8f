//go:build !probes

package native

import "github.com/forkcell/forkcell/internal/driver/native/protocol"

// leaveOff leaves every control on in this build.
func leaveOff(*spawnConfig, protocol.Without) (env []string) { return []string{} }
