package event

import "time"

// A command can be denied any number of connections in a second, each to another
// address. The first ones are recorded one by one, and others at a slow rate; the rest
// shares a record for each window.
const (
	deniedAtOnce    = 1000
	deniedPerSecond = 1
)

// tooManyDenied is the reason in a record for many denials.
const tooManyDenied = "more was denied than is recorded one by one"

// crowd counts the records of denied connections and requests.
type crowd struct {
	used float64 // of deniedAtOnce
	last time.Time
}

// admit reports whether a record is written by itself.
func (c *crowd) admit(r *record, now time.Time) bool {
	switch r.ClassUID {
	case NetworkActivity, HTTPActivity, SSHActivity:
	default:
		return true // the name server bounds its own
	}
	if r.Action != actionName(Denied) {
		return true
	}
	if passed := now.Sub(c.last); passed > 0 {
		c.used = max(0, c.used-passed.Seconds()*deniedPerSecond)
		c.last = now
	}
	if c.used+1 > deniedAtOnce {
		return false
	}
	c.used++
	return true
}

func actionName(v Verdict) string {
	_, name, _, _ := v.ocsf()
	return name
}

// combinedDenial returns the record that stands for a denial and others like it: what they have
// in common.
func combinedDenial(r *record) record {
	return record{
		Time: r.Time, ClassUID: r.ClassUID, ClassName: r.ClassName, CategoryUID: r.CategoryUID, CategoryName: r.CategoryName,
		ActivityID: r.ActivityID, ActivityName: r.ActivityName, TypeUID: r.TypeUID, SeverityID: r.SeverityID, Severity: r.Severity,
		ActionID: r.ActionID, Action: r.Action, DispositionID: r.DispositionID, Disposition: r.Disposition,
		StatusID: r.StatusID, Status: r.Status, StatusDetail: long(tooManyDenied),
		Count: r.Count, Policy: r.Policy, DstEndpoint: &endpoint{Hostname: short("(others)")}, ConnectionInfo: r.ConnectionInfo,
	}
}
