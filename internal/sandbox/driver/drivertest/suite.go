// Package drivertest checks that a driver keeps the contract of package driver.
//
// A driver's own tests call [Suite.Run] with a list of what the driver claims.
// What it claims is tried. What it does not claim must be refused: a driver that
// ignores what it cannot do is not one.
//
// The package knows the contract and no driver.
package drivertest

import (
	"os"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// Claim is something that a driver may or may not be able to do. Every driver runs
// commands with their streams, signals, time-outs and exit codes, keeps live cells,
// and is reaped after a crash.
type Claim string

const (
	// Mounts: the cell has its own file systems, as Spec.Mounts describes them.
	Mounts Claim = "mounts"
	// Absence: paths of Spec.Mounts.Absent are absent, and cannot be made.
	Absence Claim = "absence"
	// Isolation: the cell's processes see and reach nothing but the cell. What that
	// means in full is shown by the probes of Suite.Controls. A driver that does not
	// claim it runs nothing without Guard.AllowDegraded.
	Isolation Claim = "isolation"
	// Network: with Spec.Network every connection comes to the host side.
	Network Claim = "network"
	// Limits: Spec.Limits are enforced.
	Limits Claim = "limits"
	// Reports: the rare denied calls are reported to Guard.Denied.
	Reports Claim = "reports"
	// Freezer: a cell that is Freezable can be frozen.
	Freezer Claim = "freezer"
	// Programs: the host side knows which program opened a connection. A driver that
	// does not claim it says that it does not know.
	Programs Claim = "programs"
	// Sockets: with Network.Socket the cell has a unix socket that the host side serves.
	Sockets Claim = "sockets"
	// Locks: a lock of a file that the cell shares with the host is one for both.
	Locks Claim = "locks"
)

// Suite is the contract of a driver as tests.
type Suite struct {
	// New returns a driver.
	New func() driver.Driver
	// Claims lists what it can do on this host, for this caller.
	Claims []Claim
	// Controls lists what keeps commands in the driver's cells. Probes attack them.
	Controls []control.Name
	// Without returns a driver that leaves some of its controls off; nil if this
	// build has none. With it each probe is also shown to succeed without the
	// controls that stop it.
	Without func(off []control.Name) driver.Driver
	// UserOnHost is the host's number of the cell's user, and RootOnDisk the owner
	// of files on disk that are root's in the cell, for a root caller. Probes use
	// both.
	UserOnHost, RootOnDisk int
	// OwnKernel means that the cell's programs have a kernel to themselves. It answers in
	// its own words, and shows its own things where the host's would be.
	OwnKernel bool
	// Supervisor is the argument list of a process that calls [Suite.Main]. The
	// test kills it to see what is left of its cell.
	Supervisor []string
	// Environment is that of the process.
	Environment []string
	// Only names the tests that Run runs; empty means all.
	Only []string
	// Table is the page with a column for the driver; nil if it has none.
	Table *Table
}

type test struct {
	name string
	// needs is the claim that the test needs; "" for none.
	needs Claim
	do    func(*testing.T, *Fixture)
}

// Main plays the part that this process was started for, if any, and then does not
// return: a supervisor that a test kills, a caller who makes cells to be attacked,
// or the attacker in such a cell. A driver's TestMain calls it first.
func (s Suite) Main() {
	if dir := os.Getenv(supervised); dir != "" {
		s.supervise(dir)
	}
	if names := os.Getenv(envAttack); names != "" {
		attack(names)
	}
	if dir := os.Getenv(envCaller); dir != "" {
		s.messyCaller(dir)
	}
}

// Run runs the tests, in parallel.
func (s Suite) Run(t *testing.T) {
	for _, name := range s.Only {
		if !slices.ContainsFunc(tests(), func(tt test) bool { return tt.name == name }) {
			t.Errorf("the suite has no test %s", name)
		}
	}
	for _, tt := range tests() {
		if len(s.Only) > 0 && !slices.Contains(s.Only, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			if tt.needs != "" && !s.claims(tt.needs) {
				t.Skipf("%s is not claimed", tt.needs)
			}
			tt.do(t, s.Fixture(t))
		})
	}
	shown := map[control.Name]bool{}
	if len(s.Controls) > 0 {
		t.Run("Probes", func(t *testing.T) {
			t.Parallel()
			s.probe(t, shown)
		})
	}
	if s.Table != nil {
		t.Cleanup(func() { s.check(t, shown) }) // after the parallel tests
	}
}

func (s Suite) claims(c Claim) bool { return slices.Contains(s.Claims, c) }

// Contents lists the names of the suite's tests, and of its probes with the controls that
// stop each. What a cell must allow is a probe without any.
func Contents() (names []string, probes map[string][]control.Name) {
	for _, t := range tests() {
		names = append(names, t.name)
	}
	probes = map[string][]control.Name{}
	for _, p := range allProbes() {
		probes[p.name] = append(probes[p.name], p.without...)
	}
	return names, probes
}

func tests() []test {
	return []test{
		{"ExitStatus", "", testExitStatus},
		{"CommandTime", "", testCommandTime},
		{"InheritedSignals", Isolation, testInheritedSignals},
		{"NotStarted", "", testNotStarted},
		{"PathSearch", "", testPathSearch},
		{"EnvironmentAndArguments", "", testEnvironmentAndArguments},
		{"BadSpec", "", testBadSpec},
		{"Unclaimed", "", testUnclaimed},
		{"Streams", "", testStreams},
		{"BrokenOutput", "", testBrokenOutput},
		{"Signals", "", testSignals},
		{"TimeoutKillsEverything", "", testTimeoutKillsEverything},
		{"Cancel", "", testCancel},
		{"DaemonDiesWithCommand", "", testDaemonDiesWithCommand},
		{"ManyAtOnce", "", testManyAtOnce},
		{"Terminal", "", testTerminal},
		{"TerminalInterruptAndResize", "", testTerminalInterruptAndResize},
		{"ExecTerminal", "", testExecTerminal},
		{"ExecSlowCaller", "", testExecSlowCaller},
		{"ExecSharesTheCell", "", testExecSharesTheCell},
		{"ExecManyAtOnce", "", testExecManyAtOnce},
		{"ExecFailuresLeaveTheCellAlone", "", testExecFailuresLeaveTheCellAlone},
		{"ExecEnds", "", testExecEnds},
		{"ExecSignal", "", testExecSignal},
		{"ExecLeavesSomethingBehind", "", testExecLeavesSomethingBehind},
		{"ExecAfterTheEnd", "", testExecAfterTheEnd},
		{"Processes", "", testProcesses},
		{"Terminate", "", testTerminate},
		{"FreezeOfACellThatCannotBe", "", testFreezeOfACellThatCannotBe},
		{"Freeze", Freezer, testFreeze},
		{"Workspace", Mounts, testWorkspace},
		{"Absent", Absence, testAbsent},
		{"Masks", Mounts, testMasks},
		{"Network", Network, testNetwork},
		{"Socket", Sockets, testSocket},
		{"LimitOfProcesses", Limits, testLimitOfProcesses},
		{"Killed", "", testKilled},
		{"Held", Mounts, testHeld},
	}
}
