package engine

import (
	"os"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// withPackages puts the programs by which commands ask for package managers before
// all others.
func withPackages(env []string) []string {
	for i, kv := range env {
		if dirs, ok := strings.CutPrefix(kv, "PATH="); ok {
			env[i] = "PATH=" + driver.PackagesDir + ":" + dirs
		}
	}
	return env
}

// offerPackages lets programs of the cell have package managers executed as its root.
func (l *liveRun) offerPackages() error {
	if !l.req.packages {
		return nil
	}
	self, err := os.Executable()
	if err == nil {
		_, err = os.Stat(self)
	}
	if err != nil {
		return api.Failf(api.CodeStart, err, "show this program in cell %s", l.r.Record.Name)
	}
	l.r.spec.Packages = &driver.Packages{Shim: self, Asked: l.packageAsked, Ended: l.packageEnded}
	return nil
}

// rulePackages is the rule in the events of package managers.
const rulePackages = "packages"

// packageAsked records a package manager before it is executed. The first one lowers
// the assurance of a session.
func (l *liveRun) packageAsked(args []string) error {
	r := l.r
	fell, err := l.fall(api.ReasonPackageMutation)
	if err != nil {
		return err
	}
	if fell {
		r.recordEvent(event.Config(event.Subject{Message: "the assurance of the session fell: a package manager runs as root in its cell"}, "assurance fell: "+api.ReasonPackageMutation))
	}
	return r.mustRecord(event.Launch(event.Subject{
		Verdict: event.Allowed, Rule: rulePackages, Process: event.Process{PID: 1}, Message: "a package manager runs as root in the cell",
	}, packageProcess(args)))
}

// packageEnded records how a package manager ended.
func (l *liveRun) packageEnded(args []string, code int, failed error) {
	s := event.Subject{Rule: rulePackages, Process: event.Process{PID: 1}, Message: "a package manager has ended"}
	if failed != nil {
		const notExecuted = 126
		code, s.Message = notExecuted, "a package manager was not executed: "+failed.Error()
	}
	l.r.recordEvent(event.Exit(s, packageProcess(args), code))
}

func packageProcess(args []string) event.Process {
	return event.Process{Parent: 1, Binary: first(args), Args: home.Recordable(args)}
}

// fall records that the assurance of the session falls for a reason. It reports false
// for a run that is no session, or has the reason.
func (l *liveRun) fall(reason string) (bool, error) {
	r := l.r
	home, err := r.e.Store.LockHome(false)
	if err != nil {
		return false, err
	}
	defer home.Unlock()
	r.recording.Lock()
	defer r.recording.Unlock()
	rec, fell, err := lowerAssurance(r.rec, reason)
	if err != nil || !fell {
		return false, err
	}
	if err := r.e.Store.Update(func(tx *store.Tx) error { return tx.PutRun(rec) }); err != nil {
		return false, err
	}
	r.rec.Session = rec.Session // the rest is read meanwhile
	return true, nil
}
