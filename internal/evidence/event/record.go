package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
)

// schemaVersion is the version of OCSF that the records follow.
const schemaVersion = "1.8.0"

// record is an event as it is written. The order of the fields is the order in
// the line; it has no meaning in OCSF.
type record struct {
	Time         int64    `json:"time"`
	ClassUID     Class    `json:"class_uid"`
	ClassName    string   `json:"class_name"`
	CategoryUID  int      `json:"category_uid"`
	CategoryName string   `json:"category_name"`
	ActivityID   int      `json:"activity_id"`
	ActivityName string   `json:"activity_name"`
	TypeUID      int      `json:"type_uid"`
	SeverityID   Severity `json:"severity_id"`
	Severity     string   `json:"severity"`

	ActionID      int    `json:"action_id"`
	Action        string `json:"action"`
	DispositionID int    `json:"disposition_id"`
	Disposition   string `json:"disposition"`
	StatusID      int    `json:"status_id"`
	Status        string `json:"status"`
	StatusDetail  text   `json:"status_detail,omitempty"`
	Message       text   `json:"message,omitempty"`

	// Count, StartTime and EndTime stand for repetitions of one event.
	Count     uint64 `json:"count,omitempty"`
	StartTime int64  `json:"start_time,omitempty"`
	EndTime   int64  `json:"end_time,omitempty"`
	// Duration is in milliseconds.
	Duration *int64 `json:"duration,omitempty"`

	Metadata metadata `json:"metadata"`
	Device   device   `json:"device"`
	Actor    *actor   `json:"actor,omitempty"`
	Policy   *entity  `json:"policy,omitempty"`
	Rule     *entity  `json:"firewall_rule,omitempty"`

	API            *apiCall        `json:"api,omitempty"`
	SrcEndpoint    *endpoint       `json:"src_endpoint,omitempty"`
	DstEndpoint    *endpoint       `json:"dst_endpoint,omitempty"`
	ConnectionInfo *connectionInfo `json:"connection_info,omitempty"`
	Traffic        *traffic        `json:"traffic,omitempty"`
	URL            *url            `json:"url,omitempty"`
	HTTPRequest    *httpRequest    `json:"http_request,omitempty"`
	HTTPResponse   *httpResponse   `json:"http_response,omitempty"`
	Query          *dnsQuery       `json:"query,omitempty"`
	Answers        []dnsAnswer     `json:"answers,omitempty"`
	RcodeID        *int            `json:"rcode_id,omitempty"`
	Rcode          string          `json:"rcode,omitempty"`
	AuthTypeID     int             `json:"auth_type_id,omitempty"`
	AuthType       string          `json:"auth_type,omitempty"`
	File           *file           `json:"file,omitempty"`
	Process        *process        `json:"process,omitempty"`
	ExitCode       *int            `json:"exit_code,omitempty"`
	FindingInfo    *findingInfo    `json:"finding_info,omitempty"`
	IsAlert        bool            `json:"is_alert,omitempty"`
	App            *product        `json:"app,omitempty"`
	StateID        *int            `json:"state_id,omitempty"`
	State          text            `json:"state,omitempty"`

	Unmapped unmappedFields `json:"unmapped"`
}

// encode appends the record to buf, as a line of JSON.
func (r *record) encode(buf []byte) ([]byte, error) {
	w := bytes.NewBuffer(buf)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("event: encode record: %w", err)
	}
	return w.Bytes(), nil
}

// metadata.correlation_uid is the run; uid is unique over all runs.
type metadata struct {
	Version        string   `json:"version"`
	Product        product  `json:"product"`
	Profiles       []string `json:"profiles"`
	UID            text     `json:"uid"`
	CorrelationUID text     `json:"correlation_uid"`
	Sequence       uint64   `json:"sequence"`
}

type product struct {
	Name       text `json:"name"`
	VendorName text `json:"vendor_name"`
	Version    text `json:"version,omitempty"`
	UID        text `json:"uid,omitempty"`
}

// device is the cell, as a virtual device.
type device struct {
	TypeID int    `json:"type_id"`
	Type   string `json:"type"`
	Name   text   `json:"name"`
	UID    text   `json:"uid,omitempty"`
}

type actor struct {
	Process *process `json:"process,omitempty"`
	User    *entity  `json:"user,omitempty"`
}

// apiCall is a request to the daemon.
type apiCall struct {
	Operation text        `json:"operation"`
	Request   apiRequest  `json:"request"`
	Response  apiResponse `json:"response"`
}

type apiRequest struct {
	UID text `json:"uid"`
}

type apiResponse struct {
	Code int `json:"code"`
}

type process struct {
	PID     int      `json:"pid"`
	Name    text     `json:"name,omitempty"`
	CmdLine text     `json:"cmd_line,omitempty"`
	File    *file    `json:"file,omitempty"`
	Parent  *process `json:"parent_process,omitempty"`
}

type file struct {
	Name   text   `json:"name"`
	Path   text   `json:"path,omitempty"`
	TypeID int    `json:"type_id"`
	Type   string `json:"type,omitempty"`
}

type entity struct {
	Name text `json:"name,omitempty"`
	UID  text `json:"uid,omitempty"`
}

type endpoint struct {
	Hostname text `json:"hostname,omitempty"`
	IP       text `json:"ip,omitempty"`
	Port     int  `json:"port,omitempty"`
}

type connectionInfo struct {
	DirectionID  int    `json:"direction_id"`
	Direction    string `json:"direction"`
	ProtocolNum  int    `json:"protocol_num"`
	ProtocolName string `json:"protocol_name"`
}

// traffic is from the cell's point of view: in is what it received.
type traffic struct {
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
}

// sentence returns the message for people, with the traffic.
func (r *record) sentence() text {
	switch t := r.Traffic; {
	case t == nil || r.Duration == nil, t.BytesIn+t.BytesOut == 0 && (r.Message != "" || r.ActionID == 2):
		return r.Message
	}
	s := text(fmt.Sprintf("%d bytes sent, %d received, %d ms", r.Traffic.BytesOut, r.Traffic.BytesIn, *r.Duration))
	if r.Message != "" {
		s += ", " + r.Message
	}
	return s
}

type url struct {
	Scheme   text `json:"scheme,omitempty"`
	Hostname text `json:"hostname,omitempty"`
	Port     int  `json:"port,omitempty"`
	Path     text `json:"path,omitempty"`
	Query    text `json:"query_string,omitempty"`
}

type httpRequest struct {
	Method  text `json:"http_method"`
	URL     *url `json:"url,omitempty"`
	Version text `json:"version,omitempty"`
}

type httpResponse struct {
	Code int `json:"code"`
}

type dnsQuery struct {
	Hostname text `json:"hostname"`
	Type     text `json:"type,omitempty"`
	Class    text `json:"class,omitempty"`
}

type dnsAnswer struct {
	RData text `json:"rdata"`
	Type  text `json:"type,omitempty"`
}

type findingInfo struct {
	UID   text   `json:"uid"`
	Title text   `json:"title"`
	Desc  text   `json:"desc,omitempty"`
	Types []text `json:"types,omitempty"`
}

// unmappedFields holds the fields that the schema lacks.
type unmappedFields struct {
	Cell text `json:"cell"`
	Run  text `json:"run"`
	// Layer is the control that decided.
	Layer text `json:"layer,omitempty"`
	// Executed is set for a command that a client executed in a live cell.
	Executed bool `json:"executed,omitempty"`
	// Dropped is set in the last record of a journal that was full.
	Dropped *dropped `json:"dropped,omitempty"`
	// Prev is the chain up to the previous record.
	Prev string `json:"prev"`
}

type dropped struct {
	Allowed uint64 `json:"allowed"`
	Denied  uint64 `json:"denied"`
}

// newRecord fills the fields that every class has.
func newRecord(c Class, s Subject, activityID int, activity string) *record {
	_, caption, category := c.names()
	actionID, action, dispositionID, disposition := s.Verdict.ocsf()
	severity := s.Severity
	if severity == 0 {
		severity = Informational
		if s.Verdict == Denied || s.Verdict == Audited {
			severity = Low
		}
	}
	r := &record{
		ClassUID: c, ClassName: caption, CategoryUID: int(c) / 1000, CategoryName: category,
		ActivityID: activityID, ActivityName: activity, TypeUID: int(c)*100 + activityID,
		SeverityID: severity, Severity: severity.String(),
		ActionID: actionID, Action: action, DispositionID: dispositionID, Disposition: disposition,
		StatusID: 1, Status: "Success",
		StatusDetail: long(s.Reason), Message: long(s.Message),
		IsAlert: s.Verdict == Audited,
	}
	if s.Verdict == Denied {
		r.StatusID, r.Status = 2, "Failure"
	}
	if !s.Time.IsZero() {
		r.Time = s.Time.UnixMilli()
	}
	if s.Process.PID != 0 || s.Process.Binary != "" {
		acting := s.Process.ocsf()
		r.Actor = &actor{Process: &acting}
	}
	if s.Rule != "" {
		r.Rule = &entity{Name: short(s.Rule)}
	}
	if s.Policy != "" {
		r.Policy = &entity{UID: short(s.Policy)}
	}
	return r
}

func (p Process) ocsf() process {
	o := process{PID: p.PID, CmdLine: cmdLine(p.Args)}
	if p.Binary != "" {
		o.Name = short(path.Base(p.Binary))
		o.File = newFile(p.Binary, regularFile)
	}
	if p.Parent != 0 {
		o.Parent = &process{PID: p.Parent}
	}
	return o
}

// regularFile is OCSF's file type; 0 is an unknown one.
const regularFile = 1

func newFile(name string, typeID int) *file {
	f := &file{Name: short(path.Base(name)), Path: long(name), TypeID: typeID}
	if typeID == regularFile {
		f.Type = "Regular File"
	}
	return f
}
