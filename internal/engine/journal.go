package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/receipt"
)

// journal writes a run's events. No output of the command is read for them.
type journal struct {
	// mu is held for reading to append, so that the event of a new policy is the
	// first one under it.
	mu     sync.RWMutex
	file   *os.File
	log    *event.Journal
	named  func() error // waits until the file's name is durable
	sealed chan sealedJournal
}

type sealedJournal struct {
	summary event.Summary
	err     error
}

func (r *run) meta() event.Meta {
	return event.Meta{Cell: r.Record.Name, CellID: r.Record.ID, Run: r.rec.ID, Policy: r.rec.Policy, Version: r.e.Version}
}

// openJournal begins the journal of a run.
func (r *run) openJournal() (err error) {
	j := &journal{}
	if j.file, err = r.e.Store.CreateEvents(r.rec.ID); err != nil {
		return fmt.Errorf("make the run's journal: %w", err)
	}
	if j.log, err = event.Create(j.file, r.meta(), event.Options{Now: r.e.Now}); err != nil {
		return errors.Join(err, j.file.Close())
	}
	r.journal = j
	j.named = inBackground(func() error { return r.e.Store.SyncEvents(r.rec.ID) })
	r.recordEvent(event.Lifecycle(event.Subject{Message: "the run begins"}, event.RunStarted))
	r.spec.Executed = func(pid int) { r.recordLaunch(pid) }
	r.spec.Guard.Denied = r.recordDenied
	r.spec.Limits.Hit = r.limitHit
	r.spec.Attempts, r.attempted = network.Attempts(r.recordEvent)
	return nil
}

// inBackground begins to do something, and returns a function that waits for it.
func inBackground(do func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return sync.OnceValue(func() error { return <-done })
}

// reopenJournal finds the journal of a run whose process died. A run that died
// before its journal was made has no events.
func (r *run) reopenJournal() error {
	file, err := r.e.Store.ReopenEvents(r.rec.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	meta := r.meta()
	if r.rulings = r.e.Evidence.Policies(r.rec.ID); len(r.rulings) > 0 {
		meta.Policy = r.rulings[len(r.rulings)-1].PolicyHash
	}
	log, found, err := event.Recover(file, meta, event.Options{Now: r.e.Now})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r.journal = &journal{file: file, log: log, named: func() error { return r.e.Store.SyncEvents(r.rec.ID) }}
	if found.CutBytes > 0 {
		r.notes = append(r.notes, fmt.Sprintf("the run's journal of events ends early: %s", found.Reason))
	}
	return nil
}

// recordEvent appends an event. If the journal cannot be written, sealing it
// returns the error.
func (r *run) recordEvent(e event.Event) {
	if r.journal != nil {
		r.journal.mu.RLock()
		defer r.journal.mu.RUnlock()
		_ = r.journal.log.Append(e)
	}
}

// mustRecord appends an event, and fails if that cannot be written.
func (r *run) mustRecord(e event.Event) error {
	if r.journal == nil {
		return nil
	}
	r.journal.mu.RLock()
	defer r.journal.mu.RUnlock()
	return r.journal.log.Append(e)
}

func (r *run) process(pid int) event.Process {
	return event.Process{PID: pid, Parent: 1, Binary: first(r.rec.Command), Args: r.rec.Command}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (r *run) recordLaunch(pid int) {
	r.pid = pid
	r.recordEvent(event.Launch(event.Subject{Process: event.Process{PID: 1}, Message: "the command was executed"}, r.process(pid)))
}

// recordDenied records system calls that the cell's filter refused.
func (r *run) recordDenied(d driver.Denial) {
	r.recordEvent(event.Found(event.Subject{
		Verdict: event.Denied, Severity: event.Medium, Rule: "seccomp: " + d.Call, Reason: "it is in the deny set",
		Process: event.Process{PID: d.PID, Binary: d.Binary},
	}, event.Finding{
		ID: "denied_system_call", Title: "the system call " + d.Call + " was denied", Detail: "it gave " + d.Errno.Error(),
	}))
}

func (r *run) limitHit(h driver.LimitHit) {
	r.recordEvent(event.Found(event.Subject{
		Verdict: event.Denied, Severity: event.Medium, Rule: "limits." + h.Limit, Reason: "the limit was met",
	}, event.Finding{
		ID: "limit_" + h.Limit, Title: "the cell met its limit of " + h.Limit, Detail: fmt.Sprintf("%d times so far", h.Count),
	}))
}

// closeJournal writes the end of the run, and begins to make the journal durable in
// parallel with other work.
func (r *run) closeJournal() {
	if r.journal == nil {
		return
	}
	if r.attempted != nil {
		r.attempted()
	}
	if r.pid != 0 {
		r.recordEvent(event.Exit(event.Subject{Message: "the command has ended"}, r.process(r.pid), r.rec.ExitCode))
	}
	j := r.journal
	// Who follows the events reads until the end of the run: what was only counted comes
	// before it. If the journal cannot be written, sealing it returns the error.
	_ = j.log.Flush()
	r.recordEvent(event.Lifecycle(event.Subject{Message: "the run ends: " + r.rec.Outcome}, event.RunStopped))
	if err := r.e.Store.MakeRoom(); err != nil {
		r.notes = append(r.notes, err.Error())
	}
	j.sealed = make(chan sealedJournal, 1)
	go func() {
		sum, err := j.log.Seal()
		j.sealed <- sealedJournal{sum, errors.Join(err, j.file.Close(), j.named())}
	}()
}

// awaitJournal waits until the journal is durable and keeps its summary for the
// receipt.
func (r *run) awaitJournal() error {
	if r.journal == nil || r.journal.sealed == nil {
		return nil
	}
	done := <-r.journal.sealed
	r.journal.sealed = nil
	if done.err != nil {
		return fmt.Errorf("keep the run's events: %w", done.err)
	}
	r.events = receipt.Events{Count: int64(done.summary.Records), ChainHead: done.summary.Head, ByAction: map[string]int64{}}
	lost := uint64(0)
	for _, n := range done.summary.Dropped {
		lost += n
	}
	if lost > 0 {
		r.degraded = append(r.degraded, fmt.Sprintf("evidence: %d events could not be recorded", lost))
	}
	for action, n := range done.summary.Actions {
		r.events.ByAction[string(action)] = int64(n)
	}
	r.rec.Kinds = event.FormatKinds(done.summary.Kinds)
	if x := done.summary.Executed; x.Count > 0 {
		executed, err := json.Marshal(receipt.Executed{Count: int64(x.Count), Commands: x.Lines})
		if err != nil {
			return err
		}
		r.rec.Executed = executed
	}
	r.rec.EventBytes = done.summary.Bytes
	return nil
}

// dropJournal removes the journal of a run that is undone.
func (r *run) dropJournal() error {
	if r.journal == nil {
		return nil
	}
	_ = r.journal.named() // the name goes
	return errors.Join(r.journal.file.Close(), r.e.Store.DropEvents(r.rec.ID))
}

// beginPolicy begins the part of a journal under another policy with an event about
// it.
func (j *journal) beginPolicy(hash string) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, err := j.log.SetPolicy(hash)
	if err != nil {
		return 0, err
	}
	err = j.log.Append(event.Config(event.Subject{Verdict: event.Allowed, Policy: hash, Message: "it applies from this event on"}, statements.PolicyApplied))
	return int64(from), err
}

// policies returns the policies of the run for the receipt, each with its first
// event; nil if there was only one.
func (r *run) policies() []receipt.Ruling {
	if len(r.rulings) == 0 {
		return nil
	}
	return append([]receipt.Ruling{{PolicyHash: r.rec.Policy, FromEvent: 1}}, r.rulings...)
}
