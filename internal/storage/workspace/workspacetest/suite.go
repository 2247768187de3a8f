// Package workspacetest is what a store of states promises, as tests that each backend
// passes.
//
// The tests of a store call [Main] in their TestMain and [Run] in a test. What the suite is
// made of is there for further tests: a [World] is a home with one cell, in which an actor
// makes changes as a command would, by plain system calls, and sees what is there. Neither
// shares code with the store.
//
// The package must not know how a backend keeps its states, but for what the page about
// the formats says of a home's directories.
package workspacetest

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// Main plays the part that this process was started for, if any, and then does not return.
// Else it parses the flags, and makes the property tests draw few cases, unless told
// otherwise: every step of a history starts processes.
func Main() {
	switch os.Args[0] {
	case fsx.ReaderName:
		fsx.ServeReader()
	case actorName:
		os.Exit(actorMain())
	case liveName:
		os.Exit(liveMain())
	}
	flag.Parse()
	if flag.Lookup("rapid.checks").Value.String() == "100" {
		_ = flag.Set("rapid.checks", "8")
	}
}

// Run runs the suite on each of the backends, in parallel. Open opens the states of a home
// for the user who runs the tests.
func Run(t *testing.T, open Open, backends ...workspace.Backend) {
	t.Helper()
	for _, tt := range tests() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, b := range backends {
				if len(tt.only) > 0 && !slices.Contains(tt.only, b) {
					continue
				}
				t.Run(string(b), func(t *testing.T) {
					t.Parallel()
					tt.do(t, NewWorld(t, b, TempDir(t), open))
				})
			}
		})
	}
}

// test is one test of the suite.
type test struct {
	name string
	do   func(t *testing.T, w *World)
	only []workspace.Backend // the backends that promise it; all, if there are none
}

func tests() []test {
	return []test{
		{name: "Fidelity", do: testFidelity},
		{name: "Home", do: testHome},
		{name: "Unsealable", do: testUnsealable},
		{name: "ImportRefusals", do: testImportRefusals},
		{name: "Compose", do: testCompose},
		{name: "Rules", do: testRules},
		{name: "Fill", do: testFill},
		{name: "Drift", do: testDrift, only: []workspace.Backend{workspace.BackendDelta}},
		{name: "VerifyNamesDamage", do: testVerifyNamesDamage},
		{name: "Sweep", do: testSweep},
		{name: "Histories", do: testHistories},
		{name: "Capture", do: testCapture},
		{name: "CaptureHistories", do: testCaptureHistories},
		{name: "CaptureUnsealable", do: testCaptureUnsealable},
		{name: "CaptureMounted", do: testCaptureMounted},
		{name: "Area", do: testArea},
		{name: "AreaHistories", do: testAreaHistories},
	}
}
