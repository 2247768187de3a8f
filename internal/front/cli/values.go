package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// duration is a flag's value: a Go duration, or days ("7d") and weeks ("2w"),
// never negative.
type duration time.Duration

func (d *duration) String() string {
	t := time.Duration(*d)
	if t == 0 {
		return "0" // the help text shows no default for it
	}
	if t%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(t/(24*time.Hour)), 10) + "d"
	}
	return t.String()
}

func (d *duration) Set(text string) error {
	v, err := parseDuration(text)
	if err == nil {
		*d = duration(v)
	}
	return err
}

func (d *duration) Type() string { return "DUR" }

func parseDuration(text string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		number, ok := strings.CutSuffix(text, suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || time.Duration(n) > (1<<63-1)/unit {
			return 0, errDuration
		}
		return time.Duration(n) * unit, nil
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return 0, errDuration
	}
	return v, nil
}

var errDuration = errors.New(`want a duration such as "90s", "10m", "2h" or "7d"`)

// forever is the value of a --wait without a limit.
const forever = "forever"

// waiting is the value of --wait[=DUR]; negative = without a limit.
type waiting time.Duration

func (w *waiting) String() string {
	if *w < 0 {
		return forever
	}
	d := duration(*w)
	return d.String()
}

func (w *waiting) Set(text string) error {
	if text == forever {
		*w = -1
		return nil
	}
	v, err := parseDuration(text)
	if err == nil {
		*w = waiting(v)
	}
	return err
}

func (w *waiting) Type() string { return "DUR" }
