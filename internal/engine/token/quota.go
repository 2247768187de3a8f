package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
)

// maxCount bounds the numbers of a quota; more limits nothing.
const maxCount = 1_000_000

// ParseQuota reads a quota file: a JSON object with at least one of live_cells,
// runs, memory, cpus, disk and requests_per_second. Memory and disk are bytes, or
// text such as "2GiB".
func ParseQuota(data []byte) (api.Quota, error) {
	var q api.Quota
	var fields map[string]json.RawMessage
	if err := decode(data, &fields); err != nil {
		return q, fmt.Errorf("%w: quota: %w", ErrInvalid, err)
	}
	if len(fields) == 0 {
		return q, fmt.Errorf("%w: quota: it bounds nothing", ErrInvalid)
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if err := setQuota(&q, key, fields[key]); err != nil {
			return api.Quota{}, fmt.Errorf("%w: quota: %s: %w", ErrInvalid, key, err)
		}
	}
	return q, nil
}

func setQuota(q *api.Quota, key string, raw json.RawMessage) (err error) {
	switch key {
	case "live_cells":
		q.LiveCells, err = count(raw)
	case "runs":
		q.Runs, err = count(raw)
	case "memory":
		q.Memory, err = size(raw)
	case "cpus":
		q.CPUs, err = decimal(raw)
	case "disk":
		q.Disk, err = size(raw)
	case "requests_per_second":
		q.RequestsPerSecond, err = decimal(raw)
	default:
		err = errors.New("unknown field; there are live_cells, runs, memory, cpus, disk, requests_per_second")
	}
	return err
}

func count(raw json.RawMessage) (int64, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 || n > maxCount {
		return 0, fmt.Errorf("not a whole number from 1 to %d", maxCount)
	}
	return n, nil
}

func decimal(raw json.RawMessage) (float64, error) {
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(n >= 0.001 && n <= maxCount) {
		return 0, fmt.Errorf("not a number from 0.001 to %d", maxCount)
	}
	return n, nil
}

func size(raw json.RawMessage) (int64, error) {
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, err
		}
	}
	return policy.ParseSize(text)
}

// checkQuota refuses a quota that ParseQuota could not have made.
func checkQuota(q api.Quota) error {
	bounds := []struct{ value, least, most float64 }{
		{float64(q.LiveCells), 1, maxCount},
		{float64(q.Runs), 1, maxCount},
		{float64(q.Memory), 1, math.MaxInt64},
		{q.CPUs, 0.001, maxCount},
		{float64(q.Disk), 1, math.MaxInt64},
		{q.RequestsPerSecond, 0.001, maxCount},
	}
	for _, b := range bounds {
		if b.value != 0 && !(b.value >= b.least && b.value <= b.most) {
			return fmt.Errorf("%w: quota: a number is out of bounds", ErrInvalid)
		}
	}
	return nil
}
