package event

import (
	"strconv"
	"time"
)

// Connection is a connection, or an attempt at one, out of the cell or into it.
type Connection struct {
	// Host is the requested name, IP the address; either may be empty.
	Host, IP string
	Port     int
	// UDP reports that it is UDP instead of TCP.
	UDP bool
	// Inbound reports that the host opened it, to a port of the cell.
	Inbound bool
	// Traffic is the traffic until the event; nil if it is not known.
	Traffic *Traffic
}

// Traffic is the volume and duration of a connection or a request.
type Traffic struct {
	// Sent counts the bytes that the cell sent, Received those that it
	// received.
	Sent, Received int64
	// Took is the time from its start to the event.
	Took time.Duration
}

// measure adds the traffic of a connection to a record.
func (c Connection) measure(r *record) {
	if t := c.Traffic; t != nil {
		took := t.Took.Milliseconds()
		r.Traffic, r.Duration = &traffic{BytesIn: t.Received, BytesOut: t.Sent}, &took
	}
}

func (c Connection) endpoint() *endpoint {
	return &endpoint{Hostname: short(c.Host), IP: short(c.IP), Port: c.Port}
}

func (c Connection) info() *connectionInfo {
	i := &connectionInfo{DirectionID: 2, Direction: "Outbound", ProtocolNum: 6, ProtocolName: "tcp"}
	if c.Inbound {
		i.DirectionID, i.Direction = 1, "Inbound"
	}
	if c.UDP {
		i.ProtocolNum, i.ProtocolName = 17, "udp"
	}
	return i
}

// NetworkStep is the result of a connection.
type NetworkStep int

// The steps in use, with the numbers of the schema.
const (
	Opened  NetworkStep = 1
	Closed  NetworkStep = 2
	Reset   NetworkStep = 3
	Failed  NetworkStep = 4
	Refused NetworkStep = 5
)

func (n NetworkStep) String() string {
	switch n {
	case Opened:
		return "Open"
	case Closed:
		return "Close"
	case Reset:
		return "Reset"
	case Failed:
		return "Fail"
	case Refused:
		return "Refuse"
	}
	return "Unknown"
}

// Network returns an event about a connection (class 4001).
func Network(s Subject, step NetworkStep, c Connection) Event {
	r := newRecord(NetworkActivity, s, int(step), step.String())
	r.DstEndpoint, r.ConnectionInfo = c.endpoint(), c.info()
	c.measure(r)
	return Event{r}
}

// Request is one HTTP request.
type Request struct {
	Connection
	// Scheme is http or https.
	Scheme, Method string
	// Path and Query are the canonical form. A caller removes secrets from the
	// query.
	Path, Query string
	// Version is as in "1.1".
	Version string
	// Status is the response's, 0 if there was none.
	Status int
	// Layer is the protocol that decided: rest, graphql, mcp and so on.
	Layer string
}

// HTTP returns an event about a request (class 4002).
func HTTP(s Subject, q Request) Event {
	id, name := httpActivity(q.Method)
	r := newRecord(HTTPActivity, s, id, name)
	r.DstEndpoint, r.ConnectionInfo = q.endpoint(), q.info()
	q.measure(r)
	u := &url{Scheme: short(q.Scheme), Hostname: short(q.Host), Port: q.Port, Path: long(q.Path), Query: long(q.Query)}
	r.HTTPRequest = &httpRequest{Method: short(q.Method), URL: u, Version: short(q.Version)}
	if q.Status != 0 {
		r.HTTPResponse = &httpResponse{q.Status}
	}
	r.Unmapped.Layer = short(q.Layer)
	return Event{r}
}

// httpActivity returns the schema's number of a method; methods are
// case-sensitive.
func httpActivity(method string) (int, string) {
	switch method {
	case "CONNECT":
		return 1, "Connect"
	case "DELETE":
		return 2, "Delete"
	case "GET":
		return 3, "Get"
	case "HEAD":
		return 4, "Head"
	case "OPTIONS":
		return 5, "Options"
	case "POST":
		return 6, "Post"
	case "PUT":
		return 7, "Put"
	case "TRACE":
		return 8, "Trace"
	case "PATCH":
		return 9, "Patch"
	}
	return 99, "Other"
}

// Query is a DNS question and, if there was one, its answer.
type Query struct {
	Name string
	// Type is as in "AAAA".
	Type string
	// Rcode is the code of the answer.
	Rcode int
	// Answers are addresses.
	Answers []string
	// Count is how many questions the event stands for, if more than one; the
	// first at From and the last at To.
	Count    uint64
	From, To time.Time
}

// maxAnswers bounds the recorded answers.
const maxAnswers = 8

// DNS returns an event about a question with its answer (class 4003).
func DNS(s Subject, q Query) Event {
	r := newRecord(DNSActivity, s, 6, "Traffic")
	r.Query = &dnsQuery{Hostname: short(q.Name), Type: short(q.Type), Class: "IN"}
	// The supervisor of the cell answers, at an address of the cell.
	r.DstEndpoint = &endpoint{IP: "127.0.0.1", Port: 53}
	r.RcodeID, r.Rcode = &q.Rcode, rcodeName(q.Rcode)
	if q.Count > 1 {
		r.Count, r.StartTime, r.EndTime = q.Count, q.From.UnixMilli(), q.To.UnixMilli()
	}
	for _, a := range q.Answers[:min(len(q.Answers), maxAnswers)] {
		r.Answers = append(r.Answers, dnsAnswer{RData: short(a), Type: short(q.Type)})
	}
	return Event{r}
}

func rcodeName(n int) string {
	switch n {
	case 0:
		return "NoError"
	case 1:
		return "FormError"
	case 2:
		return "ServError"
	case 3:
		return "NXDomain"
	case 4:
		return "NotImp"
	case 5:
		return "Refused"
	}
	return strconv.Itoa(n)
}

// Login is a login by SSH with a key of the operator.
type Login struct {
	// Host and Port are those of the host; "" if the host is not listed.
	Host string
	Port int
}

// SSH returns an event about a request to the ssh agent (class 4007): a signature, or a
// request that was refused.
func SSH(s Subject, l Login) Event {
	step := Opened
	if s.Verdict == Denied {
		step = Refused
	}
	const publicKey = 6
	r := newRecord(SSHActivity, s, int(step), step.String())
	r.AuthTypeID, r.AuthType = publicKey, "Public Key"
	if l.Host != "" {
		r.DstEndpoint = &endpoint{Hostname: short(l.Host), Port: l.Port}
	}
	return Event{r}
}

// FileStep is the operation on a file.
type FileStep int

// The steps in use, with the numbers of the schema.
const (
	FileCreate        FileStep = 1
	FileRead          FileStep = 2
	FileUpdate        FileStep = 3
	FileDelete        FileStep = 4
	FileRename        FileStep = 5
	FileSetAttributes FileStep = 6
	FileOpen          FileStep = 14
)

func (f FileStep) String() string {
	switch f {
	case FileCreate:
		return "Create"
	case FileRead:
		return "Read"
	case FileUpdate:
		return "Update"
	case FileDelete:
		return "Delete"
	case FileRename:
		return "Rename"
	case FileSetAttributes:
		return "Set Attributes"
	case FileOpen:
		return "Open"
	}
	return "Unknown"
}

// FileAccess returns an event about a file (class 1001).
func FileAccess(s Subject, step FileStep, name string) Event {
	r := newRecord(FileActivity, s, int(step), step.String())
	r.File = newFile(name, 0)
	return Event{r.withActor()}
}

// withActor sets an actor, which the schema requires for classes about the
// system. If it is not known it is process 0, which never exists.
func (r *record) withActor() *record {
	if r.Actor == nil {
		r.Actor = &actor{Process: &process{}}
	}
	return r
}

// Launch returns an event about a program that starts (class 1007). The
// subject's process is its parent.
func Launch(s Subject, started Process) Event {
	r := newRecord(ProcessActivity, s, 1, "Launch")
	p := started.ocsf()
	r.Process = &p
	return Event{r.withActor()}
}

// Execute returns a Launch of a command that a client executes in a live cell. The
// summary of the journal lists them.
func Execute(s Subject, started Process) Event {
	e := Launch(s, started)
	e.rec.Unmapped.Executed = true
	return e
}

// Exit returns an event about a process that has ended (class 1007).
func Exit(s Subject, ended Process, code int) Event {
	r := newRecord(ProcessActivity, s, 2, "Terminate")
	p := ended.ocsf()
	r.Process, r.ExitCode = &p, &code
	return Event{r.withActor()}
}

// Finding is something that a person should look at.
type Finding struct {
	// ID is the kind of finding, stable over runs, in snake case.
	ID string
	// Title is one short sentence.
	Title string
	// Detail is a longer description.
	Detail string
}

// Found returns an event about a finding (class 2004).
func Found(s Subject, f Finding) Event {
	if s.Severity == 0 {
		s.Severity = High
	}
	r := newRecord(DetectionFinding, s, 1, "Create")
	// The status of a finding is about its review.
	r.StatusID, r.Status, r.IsAlert = 1, "New", true
	r.FindingInfo = &findingInfo{UID: short(f.ID), Title: long(f.Title), Desc: long(f.Detail), Types: []text{short(f.ID)}}
	return Event{r}
}

// LifecycleStep is a change in the state of a run.
type LifecycleStep int

// The steps in use, with the numbers of the schema.
const (
	RunStarted LifecycleStep = 3
	RunStopped LifecycleStep = 4
)

// Lifecycle returns an event about the run itself (class 6002). The subject's
// message has details, for instance that it was interrupted. These events are
// written even when a journal is full.
func Lifecycle(s Subject, step LifecycleStep) Event {
	name := "Start"
	if step == RunStopped {
		name = "Stop"
	}
	r := newRecord(AppLifecycle, s, int(step), name)
	r.App = &product{Name: "forkcell cell", VendorName: "Forkcell"}
	return Event{r}
}

// States of a live cell that others read from its events.
const (
	ClientAttached = "client attached"
	MessageTyped   = "message typed"
)

// Config returns an event about a change of the policy or the state of a live cell
// (class 5019). State is the result, such as "policy applied" or "cell paused".
func Config(s Subject, state string) Event {
	r := newRecord(ConfigChange, s, 1, "Log")
	other := 99
	r.StateID, r.State = &other, short(state)
	return Event{r}
}
