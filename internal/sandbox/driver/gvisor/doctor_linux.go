package gvisor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// doctorLimit bounds the guest that Doctor tries.
const doctorLimit = 30 * time.Second

// missingFeatures lists what the native driver has and a guest does not.
const missingFeatures = "without Landlock, allow_syscalls, limits of processes, rules for the program that connects, paths that stay absent, sockets of the host, events of denied calls, and locks shared with the host"

// Doctor implements driver.Driver: one line, by running a guest.
func (d *Driver) Doctor(ctx context.Context) []driver.Check {
	check := driver.Check{Name: "gvisor", Status: "works", Reason: missingFeatures}
	if err := d.try(ctx); err != nil {
		check.Status, check.Reason = "missing", err.Error()
		if no, ok := errors.AsType[*driver.UnenforceableError](err); ok {
			check.Reason, check.Remedy = no.Reason, no.Remedy
		}
	}
	return []driver.Check{check}
}

// try runs a command in a guest.
func (d *Driver) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	var said strings.Builder
	out, err := d.Run(ctx, driver.Spec{ID: "doctor", Hostname: "doctor", Command: driver.Command{
		Args: []string{"/bin/true"}, Workdir: "/", Timeout: doctorLimit,
	}}, driver.Stdio{Err: &said})
	if err == nil && out.Code != 0 {
		err = errors.New("a guest cannot execute /bin/true: " + said.String())
	}
	return err
}
