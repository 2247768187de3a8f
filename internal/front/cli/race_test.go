package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func TestRaceRequest(t *testing.T) {
	t.Parallel()
	shell := func(c string) api.Texts { return api.Texts{"sh", "-c", c} }
	for line, want := range map[string]api.RaceRequest{
		"race demo -n 5 -- make x": {Cell: "demo", Command: api.Texts{"make", "x"}, N: 5, Best: "exit"},
		"race -n 2 demo --jobs 3 --judge t --best score --accept --apply --keep --timeout 9s -- a -n": {
			Cell: "demo", Command: api.Texts{"a", "-n"}, N: 2, Jobs: 3, Judge: shell("t"), Best: "score", Accept: true, Apply: true, Keep: true,
			RunOptions: api.RunOptions{Timeout: 9 * time.Second},
		},
		"race demo --attempt a --attempt b --env K=v": {
			Cell: "demo", Command: api.Texts{}, Attempts: []api.RaceCommand{{Command: shell("a")}, {Command: shell("b")}}, Best: "exit",
			RunOptions: api.RunOptions{Env: api.Texts{"K=v"}},
		},
	} {
		f := &fakeEngine{err: errors.New("enough")}
		call(t, f, strings.Fields(line)...)
		got, ok := f.got.(api.RaceRequest)
		want.Network.CredentialsFile, want.Grants.ConfigFile = credentialsFile(), api.Text(configFile("config.yaml"))
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// screen interprets what a table writes, as a terminal does.
type screen struct {
	t     *testing.T
	cols  int
	lines []string
	at    int
}

var control = regexp.MustCompile(`^(?:\x1b\[([0-9]*)([AJ])|\r|\n|[^\x1b\r\n]+)`)

func (s *screen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		m := control.FindStringSubmatch(text)
		if m == nil {
			s.t.Fatalf("a terminal would not know %q", text)
		}
		text = text[len(m[0]):]
		switch {
		case m[2] == "A":
			n, _ := strconv.Atoi(m[1])
			if s.at -= n; s.at < 0 {
				s.t.Fatalf("%d lines above the first", -s.at)
			}
		case m[2] == "J":
			s.lines = s.lines[:s.at]
		case m[0] == "\n":
			s.at++
		case m[0] != "\r":
			if len([]rune(m[0])) >= s.cols {
				s.t.Errorf("%q is too wide for %d columns", m[0], s.cols)
			}
			s.lines = append(s.lines[:s.at], m[0])
		}
	}
	return len(p), nil
}

// raceStory tells of a race of n attempts, of which the first is judged.
func raceStory(n int) []api.RaceEvent {
	var all []api.RaceAttempt
	for i := range n {
		all = append(all, api.RaceAttempt{Attempt: i + 1, Cell: fmt.Sprintf("demo-race-%d", i+1)})
	}
	zero, score, one := 0, 2.5, 1
	ended := all[0]
	ended.Outcome, ended.DurationUS, ended.ChangedFiles = "succeeded", 1_250_000, 3
	judged := ended
	judged.JudgeExitCode, judged.Score = &zero, &score
	res := &api.RaceResult{Cell: "demo", Winner: &one, Attempts: append([]api.RaceAttempt{judged}, all[1:]...), Kept: []string{"demo-race-1"}}
	return []api.RaceEvent{
		{Kind: api.RaceForked, Attempts: all},
		{Kind: api.RaceStarted, Attempt: all[0]},
		{Kind: api.RaceStarted, Attempt: all[n-1]},
		{Kind: api.RaceAttempted, Attempt: ended},
		{Kind: api.RaceJudging, Attempt: ended},
		{Kind: api.RaceJudged, Attempt: judged},
		{Kind: api.RaceEnded, Result: res},
	}
}

// TestRaceTable: the table is drawn over itself, on wide, narrow, low and shrinking
// terminals, and is gone at the end.
func TestRaceTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempts   int
		cols, rows []uint16 // at each drawing; the last one stays
		want       []string // the table when the judge runs
	}{
		"wide": {3, []uint16{80}, []uint16{24}, []string{
			"ATTEMPT  OUTCOME  JUDGE  SCORE  CHANGED  TIME   CELL",
			"1        judging  -      -      3        1.25s  demo-race-1",
			"2        waiting  -      -      0        -      demo-race-2",
			"3        running  -      -      0        7s     demo-race-3",
		}},
		"narrow": {2, []uint16{20}, []uint16{24}, []string{"ATTEMPT  OUTCOME  …", "1        judging  …", "2        running  …"}},
		"low":    {9, []uint16{30}, []uint16{6}, []string{"ATTEMPT  OUTCOME  JUDGE  SCO…", "1        judging  -      -  …", "2        waiting  -      -  …", "9        running  -      -  …", "and 6 more"}},
		"tiny":   {2, []uint16{1}, []uint16{1}, nil},
		"none":   {2, []uint16{0}, []uint16{0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(0, 0)
			s := &screen{t: t, cols: max(3, int(c.cols[0]))}
			if c.cols[0] == 0 {
				s.cols = 80
			}
			table := &raceTable{
				w: s, now: func() time.Time { return now }, stop: make(chan struct{}),
				size: func() (driver.WindowSize, error) { return driver.WindowSize{Rows: c.rows[0], Cols: c.cols[0]}, nil },
			}
			for _, e := range raceStory(c.attempts) {
				table.event(e)
				now = now.Add(7 * time.Second / 3)
				if e.Kind != api.RaceJudging {
					continue
				}
				now = time.Unix(7, 0).Add(14 * time.Second / 3)
				table.draw()
				for i := range s.lines {
					s.lines[i] = strings.TrimRight(s.lines[i], " ")
				}
				if diff := cmp.Diff(c.want, s.lines); c.want != nil && diff != "" {
					t.Errorf("the screen (-want +got):\n%s", diff)
				}
			}
			if err := table.done(); err != nil || len(s.lines) > 0 {
				t.Errorf("at the end the screen shows %q (%v)", s.lines, err)
			}
		})
	}
}

// TestRaceTableShrinks: lines that wrap when the terminal gets narrower are erased,
// too.
func TestRaceTableShrinks(t *testing.T) {
	t.Parallel()
	table := &raceTable{drawn: []int{79, 30, 5}}
	for cols, want := range map[int]string{80: "\x1b[3A\r\x1b[J", 40: "\x1b[4A\r\x1b[J", 10: "\x1b[12A\r\x1b[J"} {
		if got := table.erase(cols); got != want {
			t.Errorf("on %d columns %q, want %q", cols, got, want)
		}
	}
}

func TestRaceOutput(t *testing.T) {
	t.Parallel()
	code, out, errs := call(t, &fakeEngine{race: raceStory(2)}, "race", "demo", "-n", "2", "--", "x")
	want := "ATTEMPT  OUTCOME    JUDGE  SCORE  CHANGED  TIME   CELL\n1        succeeded  0      2.5    3        1.25s  demo-race-1\n" +
		"2                   -      -      0        0.00s  demo-race-2\nwinner: attempt 1, in cell demo-race-1\n"
	lines := "forkcell: attempt 1: succeeded, 3 changes, 1.25s\nforkcell: attempt 1: judge exit 0, score 2.5\n" +
		"forkcell: `forkcell race demo --choose demo-race-1` accepts the winner into demo\n"
	if diff := cmp.Diff([]string{want, lines}, []string{out, errs}); code != 0 || diff != "" {
		t.Errorf("exit %d (-want +got):\n%s", code, diff)
	}
	code, out, errs = call(t, &fakeEngine{race: raceStory(2)}, "race", "demo", "--json", "-n", "2", "--", "x")
	if got := regexp.MustCompile(`"event":"[a-z]*"`).FindAllString(out, -1); code != 0 || errs != "" || len(got) != 3 || strings.Count(out, "\n") != 3 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}
