package race_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

// cheat is a shell script of an attempt that does no work. Every Python program in a cell
// with this home has the exit code 0.
const cheat = `dir=$(python3 -c 'import site; print(site.getusersitepackages())') && mkdir -p "$dir" &&
printf 'import atexit, os\natexit.register(os._exit, 0)\n' > "$dir/usercustomize.py"`

// needsPython skips a test where cells have no Python.
func (w *world) needsPython() {
	w.Helper()
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		w.Skip("needs /usr/bin/python3")
	}
}

// TestJudgeObeysNoAttempt: an attempt that puts a program into its home, which the
// interpreter of the judge would run, does not win by it. Nor do later tests in the cell
// find it.
func TestJudgeObeysNoAttempt(t *testing.T) {
	t.Parallel()
	test := []string{"python3", "-c", "assert open('hello.txt').read() == 'right\\n'"}
	for _, backend := range []string{"overlay", "clone", "delta"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, backend)
			w.needsPython()
			res, err := w.race(api.RaceRequest{
				Attempts: []api.RaceCommand{{Command: sh(cheat)}, {Command: sh(cheat + "; echo right > hello.txt")}, {Command: sh("sleep 0.1; echo right > hello.txt")}},
				Judge:    test, Accept: true,
			})
			w.ok(err)
			w.wantWinner(res, 2)
			if code := res.Attempts[0].JudgeExitCode; code == nil || *code == 0 {
				t.Errorf("the judge was beaten: %+v", res.Attempts[0])
			}
			w.wantRun(0, test...)
			w.wantRun(0, "sh", "-c", "echo wrong > hello.txt")
			w.wantRun(1, test...)
			w.sound()
		})
	}
}

// wantRun runs a command in the raced cell and checks its exit code.
func (w *world) wantRun(code int, command ...string) {
	w.Helper()
	res, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: command}, engine.Stdio{})
	w.ok(err)
	if res.ExitCode != code {
		w.Errorf("%q ended with %d, want %d", command, res.ExitCode, code)
	}
}

// TestJudgeInBranch: the same in branches of a live cell, by commands and by code of a warm
// interpreter.
func TestJudgeInBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.needsPython()
	w.template()
	res, err := w.race(api.RaceRequest{
		Warm:     true,
		Attempts: []api.RaceCommand{{Command: sh("echo x > ~/left")}, {Code: "open(os.path.expanduser('~/left'), 'w').write('x')"}, {Command: sh("echo right > hello.txt; echo x > ~/left")}},
		Judge:    sh("test ! -e ~/left && grep right hello.txt"),
	})
	w.ok(err)
	w.wantWinner(res, 3, "demo-race-3")
	res, err = w.choose("demo-race-3")
	w.refused(err, api.Busy, "demo")
	if res != nil {
		t.Errorf("%+v", res)
	}
}

// TestOnlyTheWorkspace: what an attempt leaves in its home, in a path that its policy lets
// it write to and in its cache is neither there for the judge nor in the accepted state.
// What the raced cell has there stays. The workspace is exactly that of the attempt.
func TestOnlyTheWorkspace(t *testing.T) {
	t.Parallel()
	const write = `echo attempt > ~/mine; echo attempt > ~/both; echo attempt > /var/tmp/file; echo attempt > /cache/file
		chmod 750 dir/plain; ln dir/plain dir/hard; ln hello.txt other; rm -r gone; ln -s dir link; mkdir -p deep/er; touch -d @1000000000 deep/er/old deep
		echo new > new; ln new new2; rm linked; rm split; echo split > split`
	const judge = `test "$(cat ~/both)" = cell && test ! -e ~/mine && test ! -e /var/tmp/file && test ! -e /cache/file &&
		test $(stat -c %h new) = 2 && test $(stat -c %h dir/plain) = 2 && test $(stat -c %h hello.txt) = 2 && test $(stat -c %h second) = 1 &&
		test $(stat -c %h split) = 1 && test $(stat -c %Y deep/er/old) = 1000000000 && test $(stat -c %a dir/plain) = 750 && test ! -e gone`
	for _, how := range []string{"accept", "choose"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "overlay")
			before, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: sh("echo cell > ~/both; mkdir -p dir gone/a; echo x > dir/plain; echo x > gone/a/b; echo x > linked; ln linked second; echo x > split; ln split pair")}, engine.Stdio{})
			w.ok(err)
			_, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo"})
			w.ok(err)
			req := api.RaceRequest{Command: sh(write), N: 1, Judge: sh(judge), Accept: how == "accept", Keep: true}
			req.Policy = &api.PolicyFile{Name: "policy.yaml", Text: []byte("version: 1\nfilesystem_policy: { read_only: [/usr, /etc], read_write: [/var/tmp] }\n")}
			req.Cache, req.Grants.Paths = api.CacheStandard, api.Texts{"/var/tmp:rw"}
			res, err := w.race(req)
			w.ok(err)
			w.wantWinner(res, 1, "demo-race-1")
			if how == "choose" {
				first, err := w.choose("demo-race-1")
				w.ok(err)
				again, err := w.choose("demo-race-1")
				w.ok(err)
				if first.DecisionID == "" || again.DecisionID != first.DecisionID {
					t.Errorf("chosen twice: %q and %q", first.DecisionID, again.DecisionID)
				}
			}
			later, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: sh(judge), RunOptions: req.RunOptions}, engine.Stdio{})
			w.ok(err)
			if later.ExitCode != 0 {
				t.Errorf("the judge fails in the raced cell: %+v", later)
			}
			races, err := w.e.Races(w.ctx, "demo", []string{"demo-race-1"})
			w.ok(err)
			// The cache is new itself.
			want := []api.AreaChange{{Area: "home", Files: 2}, {Area: "cache", Files: 2}, {Area: "/var/tmp", Files: 1}}
			if got := races[0].Attempts[0].Elsewhere; !slices.Equal(got, want) || !slices.Equal(res.Attempts[0].Elsewhere, want) {
				t.Errorf("outside the workspace the attempt changed %+v, want %+v", got, want)
			}
			if len(races) != 1 || races[0].Winner == nil || races[0].Open {
				t.Errorf("the records of the race are %+v", races)
			}
			diff, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo", From: "demo-race-1"})
			w.ok(err)
			if len(diff.Changes) != 0 {
				t.Errorf("the cell and the winner differ: %+v", diff.Changes)
			}
			w.sound()
			_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Run: later.RunID})
			w.ok(err)
			back, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Run: res.Attempts[0].RunID})
			w.ok(err)
			if back.CheckpointID != before.CheckpointAfter {
				t.Errorf("restored, the cell is in %s, want %s", back.CheckpointID, before.CheckpointAfter)
			}
			w.ok(os.Remove(w.home + "/forkcell.db"))
			w.recover()
			w.sound()
		})
	}
}

// TestJudgeLongPath: an attempt that cannot be judged does not win, and the others do.
func TestJudgeLongPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	const deep = `echo x > ~/x; n=$(printf %0200d 0); n=$n/$n/$n/$n/$n/$n/$n/$n/$n/$n/$n; mkdir -p a/$n b/$n; mv b a/$n/b`
	res, err := w.race(api.RaceRequest{
		Attempts: []api.RaceCommand{{Command: sh(deep)}, {Command: sh("echo right > hello.txt; echo x > ~/x")}},
		Judge:    []string{"true"}, Accept: true,
	})
	w.ok(err)
	w.wantWinner(res, 2)
	if res.Attempts[0].JudgeExitCode != nil || res.Attempts[0].Outcome != "succeeded" {
		t.Errorf("%+v", res.Attempts[0])
	}
	w.sound()
}
