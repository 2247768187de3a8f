package policy

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Bounds of the limits. Lower values stop everything, higher ones limit
// nothing.
const (
	minMemory   = 1 << 20
	minDisk     = 1 << 12
	maxSize     = 1 << 50
	minCPUs     = 10
	maxCPUs     = 4096_000
	maxPIDs     = 1 << 22
	minFiles    = 16
	maxFiles    = 1 << 20
	minWallTime = time.Millisecond
	maxWallTime = 366 * 24 * time.Hour
)

type unit struct {
	name  string
	bytes int64
}

// units returns the units of sizes, the largest first.
func units() []unit {
	return []unit{
		{"TiB", 1 << 40},
		{"GiB", 1 << 30},
		{"MiB", 1 << 20},
		{"KiB", 1 << 10},
		{"TB", 1e12},
		{"GB", 1e9},
		{"MB", 1e6},
		{"kB", 1e3},
		{"T", 1 << 40},
		{"G", 1 << 30},
		{"M", 1 << 20},
		{"K", 1 << 10},
		{"B", 1},
		{"", 1},
	}
}

var (
	errSize = errors.New("not a size; write a number with KiB, MiB, GiB, TiB (or K, M, G, T), kB, MB, GB or TB, or plain bytes")
	errCPUs = errors.New("not a number of processors; write it as 2 or 1.5, with at most three decimals")
)

// ParseSize reads a size such as 2GiB, 1.5MB or 4096. It is positive.
func ParseSize(s string) (int64, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	for _, u := range units() {
		if s[len(number):] != u.name {
			continue
		}
		v, err := scale(number, u.bytes)
		if err != nil {
			return 0, fmt.Errorf("%s is %w", show(s), errSize)
		}
		if v < 1 || v > maxSize {
			return 0, fmt.Errorf("%s is not from 1 byte to %s", show(s), formatSize(maxSize))
		}
		return v, nil
	}
	return 0, fmt.Errorf("%s is %w", show(s), errSize)
}

// scale returns a decimal number times a factor, if that is a whole number.
func scale(s string, factor int64) (int64, error) {
	whole, frac, dot := strings.Cut(s, ".")
	if whole == "" || len(s) > 24 || dot && frac == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, errSize
	}
	v, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, errSize
	}
	v.Mul(v, new(big.Rat).SetInt64(factor))
	switch {
	case !v.IsInt():
		return 0, errSize
	case !v.Num().IsInt64():
		return -1, nil
	}
	return v.Num().Int64(), nil
}

// formatSize writes a size in the largest unit of which it is a whole number.
func formatSize(v int64) string {
	for _, u := range units()[:4] {
		if v%u.bytes == 0 {
			return strconv.FormatInt(v/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(v, 10)
}

// ParseCPUs reads a number of processors in thousandths.
func ParseCPUs(s string) (int64, error) {
	v, err := scale(s, 1000)
	if err != nil {
		return 0, fmt.Errorf("%s is %w", show(s), errCPUs)
	}
	if v < minCPUs || v > maxCPUs {
		return 0, fmt.Errorf("%s is not from %s to %s", show(s), formatCPUs(minCPUs), formatCPUs(maxCPUs))
	}
	return v, nil
}

func formatCPUs(milli int64) string {
	s := strconv.FormatInt(milli/1000, 10)
	if milli%1000 != 0 {
		s += strings.TrimRight(fmt.Sprintf(".%03d", milli%1000), "0")
	}
	return s
}

// ParsePIDs reads a number of processes.
func ParsePIDs(s string) (int64, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || !decimal(s) || v < 1 || v > maxPIDs {
		return 0, fmt.Errorf("%s is not a whole number from 1 to %d", show(s), maxPIDs)
	}
	return v, nil
}

func parseWallTime(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || strings.ContainsAny(s, "+-µμ") || s == "0" {
		return 0, fmt.Errorf("%s is not a duration; write it as 90s, 30m or 1h30m", show(s))
	}
	if d < minWallTime || d > maxWallTime {
		return 0, fmt.Errorf("%s is not from 1ms to 8784h", show(s))
	}
	return d, nil
}

// formatDuration writes each unit that is not zero.
func formatDuration(d time.Duration) string {
	var b strings.Builder
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", 1}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

func (r *reader) limits(n *yaml.Node) Limits {
	o := r.object(n, "limits", "memory", "cpus", "pids", "disk", "open_files", "wall_time", "output")
	return Limits{
		Memory:    o.size("memory", minMemory),
		CPUs:      o.parseScalar("cpus", "a number of processors", ParseCPUs),
		PIDs:      o.integer("pids", 1, maxPIDs),
		Disk:      o.size("disk", minDisk),
		OpenFiles: o.integer("open_files", minFiles, maxFiles),
		WallTime: time.Duration(o.parseScalar("wall_time", "a duration", func(s string) (int64, error) {
			d, err := parseWallTime(s)
			return int64(d), err
		})),
		Output: o.size("output", 1),
	}
}

func (o *object) size(key string, least int64) int64 {
	return o.parseScalar(key, "a size", func(s string) (int64, error) {
		v, err := ParseSize(s)
		if err == nil && v < least {
			return 0, fmt.Errorf("%s is less than %s, too little to run anything", show(s), formatSize(least))
		}
		return v, err
	})
}

// parseScalar reads a scalar that may be written as text or as a number.
func (o *object) parseScalar(key, what string, parse func(string) (int64, error)) int64 {
	n := o.vals[key]
	if n == nil {
		return 0
	}
	s, ok := o.r.word(n, o.at(key), what)
	if !ok {
		return 0
	}
	v, err := parse(s)
	if err != nil {
		o.bad(key, "%v", err)
		return 0
	}
	return v
}
