package event

import (
	"strconv"
	"unicode/utf8"
)

// encode appends a record as JSON to buf. It is done by hand because it happens for every
// request that leaves a cell, while the request waits; a test compares it with
// encoding/json, field by field.
func (r *record) encode(buf []byte) []byte {
	l := line{buf: buf}
	l.open("")
	l.number("time", r.Time)
	l.number("class_uid", int64(r.ClassUID))
	l.plain("class_name", r.ClassName)
	l.number("category_uid", int64(r.CategoryUID))
	l.plain("category_name", r.CategoryName)
	l.number("activity_id", int64(r.ActivityID))
	l.plain("activity_name", r.ActivityName)
	l.number("type_uid", int64(r.TypeUID))
	l.number("severity_id", int64(r.SeverityID))
	l.plain("severity", r.Severity)
	l.number("action_id", int64(r.ActionID))
	l.plain("action", r.Action)
	l.number("disposition_id", int64(r.DispositionID))
	l.plain("disposition", r.Disposition)
	l.number("status_id", int64(r.StatusID))
	l.plain("status", r.Status)
	l.some("status_detail", r.StatusDetail)
	l.some("message", r.Message)
	if r.Count != 0 {
		l.unsigned("count", r.Count)
	}
	l.positive("start_time", r.StartTime)
	l.positive("end_time", r.EndTime)
	l.pointer("duration", r.Duration)
	l.metadata(&r.Metadata)
	l.device(&r.Device)
	l.subject(r)
	l.network(r)
	l.dns(r)
	l.system(r)
	l.unmapped(&r.Unmapped)
	l.close()
	return append(l.buf, '\n')
}

func (l *line) metadata(m *metadata) {
	l.open("metadata")
	l.plain("version", m.Version)
	l.product("product", &m.Product)
	l.key("profiles")
	if m.Profiles == nil {
		l.buf = append(l.buf, "null"...)
	} else {
		l.buf = append(l.buf, '[')
		for i, p := range m.Profiles {
			if i > 0 {
				l.buf = append(l.buf, ',')
			}
			l.quote(p)
		}
		l.buf = append(l.buf, ']')
	}
	l.text("uid", m.UID)
	l.text("correlation_uid", m.CorrelationUID)
	l.unsigned("sequence", m.Sequence)
	l.close()
}

func (l *line) product(key string, p *product) {
	l.open(key)
	l.text("name", p.Name)
	l.text("vendor_name", p.VendorName)
	l.some("version", p.Version)
	l.some("uid", p.UID)
	l.close()
}

func (l *line) device(d *device) {
	l.open("device")
	l.number("type_id", int64(d.TypeID))
	l.plain("type", d.Type)
	l.text("name", d.Name)
	l.some("uid", d.UID)
	l.close()
}

// subject is who did it, and what rules.
func (l *line) subject(r *record) {
	if r.Actor != nil {
		l.open("actor")
		l.process("process", &r.Actor.Process)
		l.close()
	}
	l.entity("policy", r.Policy)
	l.entity("firewall_rule", r.Rule)
}

func (l *line) process(key string, p *process) {
	if p == nil {
		return
	}
	l.open(key)
	l.number("pid", int64(p.PID))
	l.some("name", p.Name)
	l.some("cmd_line", p.CmdLine)
	l.file(p.File)
	l.process("parent_process", p.Parent)
	l.close()
}

func (l *line) file(f *file) {
	if f == nil {
		return
	}
	l.open("file")
	l.text("name", f.Name)
	l.some("path", f.Path)
	l.number("type_id", int64(f.TypeID))
	if f.Type != "" {
		l.plain("type", f.Type)
	}
	l.close()
}

func (l *line) entity(key string, e *entity) {
	if e == nil {
		return
	}
	l.open(key)
	l.some("name", e.Name)
	l.some("uid", e.UID)
	l.close()
}

// network is what connections and requests have.
func (l *line) network(r *record) {
	if e := r.DstEndpoint; e != nil {
		l.open("dst_endpoint")
		l.some("hostname", e.Hostname)
		l.some("ip", e.IP)
		l.positive("port", int64(e.Port))
		l.close()
	}
	if c := r.ConnectionInfo; c != nil {
		l.open("connection_info")
		l.number("direction_id", int64(c.DirectionID))
		l.plain("direction", c.Direction)
		l.number("protocol_num", int64(c.ProtocolNum))
		l.plain("protocol_name", c.ProtocolName)
		l.close()
	}
	if t := r.Traffic; t != nil {
		l.open("traffic")
		l.number("bytes_in", t.BytesIn)
		l.number("bytes_out", t.BytesOut)
		l.close()
	}
	l.url(r.URL)
	if q := r.HTTPRequest; q != nil {
		l.open("http_request")
		l.text("http_method", q.Method)
		l.url(q.URL)
		l.some("version", q.Version)
		l.close()
	}
	if a := r.HTTPResponse; a != nil {
		l.open("http_response")
		l.number("code", int64(a.Code))
		l.close()
	}
}

func (l *line) url(u *url) {
	if u == nil {
		return
	}
	l.open("url")
	l.some("scheme", u.Scheme)
	l.some("hostname", u.Hostname)
	l.positive("port", int64(u.Port))
	l.some("path", u.Path)
	l.some("query_string", u.Query)
	l.close()
}

func (l *line) dns(r *record) {
	if q := r.Query; q != nil {
		l.open("query")
		l.text("hostname", q.Hostname)
		l.some("type", q.Type)
		l.some("class", q.Class)
		l.close()
	}
	if len(r.Answers) > 0 {
		l.key("answers")
		l.buf = append(l.buf, '[')
		for i := range r.Answers {
			if i > 0 {
				l.buf = append(l.buf, ',')
			}
			l.open("")
			l.text("rdata", r.Answers[i].RData)
			l.some("type", r.Answers[i].Type)
			l.close()
		}
		l.buf = append(l.buf, ']')
	}
	l.integer("rcode_id", r.RcodeID)
	if r.Rcode != "" {
		l.plain("rcode", r.Rcode)
	}
}

// system is what the classes about files, processes, findings and runs have.
func (l *line) system(r *record) {
	l.file(r.File)
	l.process("process", r.Process)
	l.integer("exit_code", r.ExitCode)
	if f := r.FindingInfo; f != nil {
		l.open("finding_info")
		l.text("uid", f.UID)
		l.text("title", f.Title)
		l.some("desc", f.Desc)
		if len(f.Types) > 0 {
			l.key("types")
			for i, t := range f.Types {
				l.buf = append(l.buf, "[,"[min(i, 1)], '"')
				l.buf = append(append(l.buf, t...), '"')
			}
			l.buf = append(l.buf, ']')
		}
		l.close()
	}
	if r.IsAlert {
		l.key("is_alert")
		l.buf = append(l.buf, "true"...)
	}
	if r.App != nil {
		l.product("app", r.App)
	}
	l.integer("state_id", r.StateID)
	l.some("state", r.State)
}

func (l *line) unmapped(u *unmapped) {
	l.open("unmapped")
	l.text("cell", u.Cell)
	l.text("run", u.Run)
	l.some("layer", u.Layer)
	if d := u.Dropped; d != nil {
		l.open("dropped")
		l.unsigned("allowed", d.Allowed)
		l.unsigned("denied", d.Denied)
		l.close()
	}
	l.plain("prev", u.Prev)
	l.close()
}

// line is a JSON object that is being written.
type line struct{ buf []byte }

// key begins a member; empty begins an element of an array, or the object.
func (l *line) key(name string) {
	if name == "" {
		return
	}
	if l.buf[len(l.buf)-1] != '{' {
		l.buf = append(l.buf, ',')
	}
	l.buf = append(l.buf, '"')
	l.buf = append(l.buf, name...)
	l.buf = append(l.buf, '"', ':')
}

func (l *line) open(key string) {
	l.key(key)
	l.buf = append(l.buf, '{')
}

func (l *line) close() { l.buf = append(l.buf, '}') }

func (l *line) number(key string, n int64) {
	l.key(key)
	l.buf = strconv.AppendInt(l.buf, n, 10)
}

func (l *line) unsigned(key string, n uint64) {
	l.key(key)
	l.buf = strconv.AppendUint(l.buf, n, 10)
}

// positive leaves a zero out.
func (l *line) positive(key string, n int64) {
	if n != 0 {
		l.number(key, n)
	}
}

// pointer leaves a number out that is not there.
func (l *line) pointer(key string, n *int64) {
	if n != nil {
		l.number(key, *n)
	}
}

func (l *line) integer(key string, n *int) {
	if n != nil {
		l.number(key, int64(*n))
	}
}

// text writes text that was made harmless before.
func (l *line) text(key string, t text) {
	l.key(key)
	l.buf = append(l.buf, '"')
	l.buf = append(l.buf, t...)
	l.buf = append(l.buf, '"')
}

// some leaves an empty text out.
func (l *line) some(key string, t text) {
	if t != "" {
		l.text(key, t)
	}
}

// plain writes a string of this package's own.
func (l *line) plain(key, s string) {
	l.key(key)
	l.quote(s)
}

func (l *line) quote(s string) {
	l.buf = append(l.buf, '"')
	if harmless(s) {
		l.buf = append(l.buf, s...)
		s = ""
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		l.buf = appendRune(l.buf, r, s[i:i+n])
		i += n
	}
	l.buf = append(l.buf, '"')
}
