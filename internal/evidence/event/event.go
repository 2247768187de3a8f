// Package event records what happened in a run: security events in the format
// of the Open Cybersecurity Schema Framework (OCSF), one JSON object on each
// line of a journal, chained by hash.
//
// The host side makes events with the constructors here ([Network], [HTTP],
// [DNS], [FileAccess], [Launch], [Found], [Lifecycle], [Config] and others) and
// appends them to the [Journal] of a run. Nothing is parsed from the output of
// a command. Text in an event comes from untrusted commands: its length is
// bounded and every invisible character is escaped, so a line can be printed as
// it is.
//
// The package does not know stores, drivers or policies: the caller passes an
// open file, and rules and policies are only names here.
package event

import (
	"fmt"
	"strconv"
	"time"
)

// Class is an OCSF event class.
type Class int

// The classes in use, with the numbers of the schema.
const (
	FileActivity     Class = 1001
	ProcessActivity  Class = 1007
	DetectionFinding Class = 2004
	NetworkActivity  Class = 4001
	HTTPActivity     Class = 4002
	DNSActivity      Class = 4003
	SSHActivity      Class = 4007
	ConfigChange     Class = 5019
	AppLifecycle     Class = 6002
	APIActivity      Class = 6003
)

// Classes lists every class in use.
func Classes() []Class {
	return []Class{
		FileActivity, ProcessActivity, DetectionFinding, NetworkActivity,
		HTTPActivity, DNSActivity, SSHActivity, ConfigChange, AppLifecycle, APIActivity,
	}
}

// names returns the schema's name and caption of a class and the caption of its
// category. The category's number is the class's without its last three digits.
func (c Class) names() (name, caption, category string) {
	switch c {
	case FileActivity:
		return "file_activity", "File System Activity", "System Activity"
	case ProcessActivity:
		return "process_activity", "Process Activity", "System Activity"
	case DetectionFinding:
		return "detection_finding", "Detection Finding", "Findings"
	case NetworkActivity:
		return "network_activity", "Network Activity", "Network Activity"
	case HTTPActivity:
		return "http_activity", "HTTP Activity", "Network Activity"
	case DNSActivity:
		return "dns_activity", "DNS Activity", "Network Activity"
	case SSHActivity:
		return "ssh_activity", "SSH Activity", "Network Activity"
	case ConfigChange:
		return "device_config_state_change", "Device Config State Change", "Discovery"
	case AppLifecycle:
		return "application_lifecycle", "Application Lifecycle", "Application Activity"
	case APIActivity:
		return "api_activity", "API Activity", "Application Activity"
	}
	return strconv.Itoa(int(c)), "Unknown", "Unknown"
}

// String returns the schema's name of the class, in snake case.
func (c Class) String() string {
	name, _, _ := c.names()
	return name
}

// ParseClass reads a class's number or its name in snake case.
func ParseClass(s string) (Class, error) {
	for _, c := range Classes() {
		if s == c.String() || s == strconv.Itoa(int(c)) {
			return c, nil
		}
	}
	return 0, fmt.Errorf("event: no class %q", s)
}

// Action is whether something was allowed.
type Action string

// The two actions, as the command line and results name them.
const (
	ActionAllowed Action = "allowed"
	ActionDenied  Action = "denied"
)

// ParseAction reads "allowed" or "denied".
func ParseAction(s string) (Action, error) {
	switch a := Action(s); a {
	case ActionAllowed, ActionDenied:
		return a, nil
	}
	return "", fmt.Errorf("event: no action %q", s)
}

// Verdict is the decision of a control about an activity. The zero value is
// Logged.
type Verdict int

const (
	// Logged: recorded without a decision.
	Logged Verdict = iota
	// Allowed: a rule allows it.
	Allowed
	// Denied: it did not happen.
	Denied
	// Audited: it happened, and would be denied if the rule were enforced.
	Audited
)

// ocsf returns the numbers and captions of action and disposition.
func (v Verdict) ocsf() (actionID int, action string, dispositionID int, disposition string) {
	switch v {
	case Allowed:
		return 1, "Allowed", 1, "Allowed"
	case Denied:
		return 2, "Denied", 2, "Blocked"
	case Audited:
		return 1, "Allowed", 19, "Alert"
	case Logged:
	}
	return 1, "Allowed", 17, "Logged"
}

// Severity is OCSF's. The zero value lets the constructor choose.
type Severity int

// The severities in use.
const (
	Informational Severity = 1
	Low           Severity = 2
	Medium        Severity = 3
	High          Severity = 4
)

func (s Severity) String() string {
	switch s {
	case Informational:
		return "Informational"
	case Low:
		return "Low"
	case Medium:
		return "Medium"
	case High:
		return "High"
	}
	return "Unknown"
}

// Subject is the part that all events share: the process, the decision and its
// reason.
type Subject struct {
	// Time is when it happened; the journal's clock if zero.
	Time    time.Time
	Verdict Verdict
	// Severity is chosen by the verdict if zero.
	Severity Severity
	// Process is the acting process, with its numbers inside the cell.
	Process Process
	// Rule is the name of the rule that decided, empty if none did.
	Rule string
	// Policy is the hash of the policy that decided; the journal's if empty.
	Policy string
	// Reason is the reason of a denial.
	Reason string
	// Message is one sentence for people.
	Message string
}

// Process is a process of the cell.
type Process struct {
	PID, Parent int
	// Binary is the executable's path in the cell.
	Binary string
	// Args is the command line.
	Args []string
}

// Event is one recorded activity, ready to be appended. Constructors make it.
type Event struct {
	rec *record // never changed
}

// Class returns the event's class.
func (e Event) Class() Class { return e.rec.ClassUID }
