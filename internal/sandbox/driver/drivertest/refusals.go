package drivertest

import (
	"errors"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// testUnclaimed: what a driver does not claim it refuses, before anything runs.
func testUnclaimed(t *testing.T, f *Fixture) {
	for claim, ask := range map[Claim]func(*driver.Spec){
		Mounts: func(s *driver.Spec) {
			s.Mounts.Binds = append(s.Mounts.Binds, mount.Bind{Target: "/srv/elsewhere", Source: f.Shared})
		},
		Absence: func(s *driver.Spec) {
			s.Mounts.Absent = []mount.Absence{{Target: f.Workspace, Upper: f.Upper, Paths: []string{"never"}}}
		},
		Network: func(s *driver.Spec) {
			s.Network = &driver.Network{Serve: func(driver.Captured) (func(), error) {
				t.Errorf("%s is not claimed, and served", Network)
				return nil, errors.New("not claimed")
			}}
		},
		Sockets: func(s *driver.Spec) {
			s.Network = &driver.Network{Socket: "/.forkcell/test", Serve: func(c driver.Captured) (func(), error) {
				t.Errorf("%s is not claimed, and served", Sockets)
				c.Close()
				return nil, errors.New("not claimed")
			}}
		},
		Limits:    func(s *driver.Spec) { s.Limits.PIDs = 100 },
		Isolation: func(s *driver.Spec) { s.Guard.AllowDegraded = false },
	} {
		if f.suite.claims(claim) {
			continue
		}
		s := f.Spec
		s.Args = []string{"true"}
		ask(&s)
		if _, err := f.Run(t.Context(), s, driver.Stdio{}); err == nil {
			t.Errorf("%s is not claimed, and the command ran", claim)
		}
	}
}
