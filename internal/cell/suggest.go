package cell

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/match"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
)

// SuggestPolicy adds to the policy of a run what it was denied, as far as its
// events tell. "" is the cell's last run.
func (e *Engine) SuggestPolicy(_ context.Context, cell, run string) (*api.PolicySuggestion, error) {
	c, err := e.findCell(cell)
	if err != nil {
		return nil, err
	}
	var r store.Run
	err = e.view(func(tx *store.Tx) error {
		// The run of a live cell has not ended, and is its last one.
		if unfinished, err := tx.UnfinishedRuns(c.ID); err == nil && run == "" && len(unfinished) > 0 {
			r = unfinished[len(unfinished)-1]
			return nil
		}
		r, err = e.findRun(tx, c, run)
		return err
	})
	if err != nil {
		return nil, err
	}
	before, err := e.lastRuling(r)
	if err != nil {
		return nil, err
	}
	grown, err := e.lastRuling(r) // another one: it is changed
	if err != nil {
		return nil, err
	}
	s := &suggester{caller: e.caller, policy: *grown, commands: e.commandsOf(r)}
	for _, v := range grown.Environment.Set {
		s.commands = append(s.commands, v.Value) // such as the URL of a registry
	}
	for rec, err := range e.journalOf(r.ID, event.Filter{Action: event.ActionDenied}) {
		if err != nil {
			return nil, api.Failf(api.CodeEvents, err, "read the events of %s", r.ID)
		}
		s.consider(rec)
	}
	live := slices.Equal(r.Command, startCommand()) // a live cell always has a name server
	s.unseen = !live && !before.NeedsNetwork() && !before.NeedsCredentials()
	if s.unseen {
		s.named()
	}
	return s.suggestion(c, r, before)
}

// lastRuling is the policy that ruled a run at its end, or rules it.
func (e *Engine) lastRuling(r store.Run) (*policy.Policy, error) {
	hash := r.Policy
	if later := e.rulingsIn(r.ID); len(later) > 0 {
		hash = later[len(later)-1].PolicyHash
	}
	return e.storedPolicy(hash)
}

// commandsOf are the command lines of a run, in which ports of names that were
// only asked for may stand.
func (e *Engine) commandsOf(r store.Run) []string {
	lines := slices.Clone(r.Command)
	for rec, err := range e.journalOf(r.ID, event.Filter{Class: event.ProcessActivity}) {
		var line struct {
			Process struct {
				CmdLine string `json:"cmd_line"`
			} `json:"process"`
		}
		if err == nil && json.Unmarshal(rec.Raw, &line) == nil {
			lines = append(lines, line.Process.CmdLine)
		}
	}
	return lines
}

// denied is what an event says about something that was denied.
type denied struct {
	Class   event.Class `json:"class_uid"`
	Reason  string      `json:"status_detail"`
	Message string      `json:"message"`
	Actor   struct {
		Process struct {
			File struct {
				Path string `json:"path"`
			} `json:"file"`
		} `json:"process"`
	} `json:"actor"`
	Rule struct {
		Name string `json:"name"`
	} `json:"firewall_rule"`
	Endpoint struct {
		Host string `json:"hostname"`
		IP   string `json:"ip"`
		Port int    `json:"port"`
	} `json:"dst_endpoint"`
	Request struct {
		Method string `json:"http_method"`
		URL    struct {
			Path string `json:"path"`
		} `json:"url"`
	} `json:"http_request"`
	Query struct {
		Host string `json:"hostname"`
	} `json:"query"`
	Unmapped struct {
		Layer string `json:"layer"`
	} `json:"unmapped"`
}

// suggester grows a policy by what was denied.
type suggester struct {
	caller   Caller
	policy   policy.Policy
	commands []string
	wishes   []wish
	left     []string
	unseen   bool // see PolicySuggestion
}

// wish is what a program wanted: a connection, or with a method a request.
type wish struct {
	host         string
	port         uint16
	binary       string
	method, path string
	// guessed says that only the name was asked for, named that it only stands on
	// a command line.
	guessed, named bool
	// plain says that it speaks plain HTTP on a port other than 80, slash that its
	// path has an encoded slash.
	plain, slash bool
	// addr is an address of the host that allowed_ips has to list.
	addr netip.Addr
}

func (w wish) String() string {
	at := fmt.Sprintf("%s port %d", w.host, w.port)
	if w.plain {
		at += " in plain HTTP"
	}
	switch {
	case w.addr.IsValid():
		return at + " at the address " + w.addr.String()
	case w.named:
		return at + ", reading only, by any program: only a command line names it, the rest is assumed"
	case w.guessed:
		return at + ", reading only, by any program: only the name was asked for, the rest is assumed"
	case w.method != "":
		at = fmt.Sprintf("%s %s at %s", w.method, w.path, at)
	}
	if w.binary == anyProgram {
		return at + " by any program"
	}
	return at + " by " + w.binary
}

// request is what the policy is asked about it.
func (w wish) request() policy.Request {
	q := policy.Request{Host: w.host, Port: w.port, Binary: w.binary, Method: w.method, Path: w.path}
	if w.binary == anyProgram {
		q.Binary = ""
	}
	if w.plain {
		q.Scheme = policy.HTTP
	}
	return q
}

const anyProgram = "/**"

// maxSuggested bounds what a run full of denials is answered with.
const maxSuggested = 256

// consider takes one denied event.
func (s *suggester) consider(rec event.Record) {
	var d denied
	if json.Unmarshal(rec.Raw, &d) != nil {
		return
	}
	switch d.Class {
	case event.NetworkActivity, event.HTTPActivity:
		s.connection(d)
	case event.DNSActivity:
		s.name(d)
	default:
	}
}

func (s *suggester) connection(d denied) {
	w := wish{host: d.Endpoint.Host, port: uint16(d.Endpoint.Port), binary: d.Actor.Process.File.Path}
	if w.host == "" {
		w.host = d.Endpoint.IP
	}
	// The hint knows whether the cell could have written the program.
	if w.binary == "" || strings.Contains(d.Message, `binaries: [{path: "/**"}]`) {
		w.binary = anyProgram
	}
	if d.Class == event.HTTPActivity && d.Request.Method != "CONNECT" {
		w.method, w.path = d.Request.Method, d.Request.URL.Path
	}
	layer, why, _ := strings.Cut(d.Reason, ": ")
	switch {
	case strings.Contains(d.Rule.Name, ".deny_rules["):
		s.leave(w, "a deny rule is against it: "+d.Rule.Name)
	case layer == "destination" && listable(why).IsValid():
		s.wish(wish{host: w.host, port: w.port, binary: anyProgram, addr: listable(why)})
	case layer == "tls" && w.method != "" && strings.HasPrefix(why, "plain HTTP, "):
		w.plain = true
		s.wish(w)
	case layer == "request" && why == match.ErrEncodedSlash.Error():
		w.slash = true
		if canonical, err := match.URLPath(w.path, true); err == nil {
			w.path = canonical // a path that is refused stands in the event as it came
		}
		s.wish(w)
	case layer != "endpoint" && layer != "request":
		s.leave(w, why)
	case layer == "request" && d.Unmapped.Layer != "" && d.Unmapped.Layer != policy.REST.String():
		s.leave(w, "what its content says decides; the smallest rule is "+d.Message)
	default:
		w.plain = w.method == "" && slices.Contains(portsIn(s.commands, w.host), place{port: w.port, plain: true})
		s.wish(w)
	}
}

// listable finds in the reason of a denial the address that allowed_ips could list;
// it is not valid if that was not the reason.
func listable(why string) netip.Addr {
	_, rest, _ := strings.Cut(why, " resolves to ")
	text, rest, _ := strings.Cut(rest, ", which ")
	addr, err := netip.ParseAddr(text)
	if err != nil || !strings.Contains(rest, "allowed_ips") {
		return netip.Addr{}
	}
	return addr
}

// name takes a denied question for a name. Where the program would have gone is
// not known: what is assumed is said.
func (s *suggester) name(d denied) {
	host := d.Query.Host
	// A name such as _http._tcp.a.example asks where a service is; nobody connects to it.
	if strings.HasSuffix(host, ".arpa") || strings.HasPrefix(host, "_") || slices.ContainsFunc(s.policy.Network, func(n policy.NetworkPolicy) bool {
		return slices.ContainsFunc(n.Endpoints, func(e policy.Endpoint) bool { return e.Host.Match(host) })
	}) {
		return
	}
	at := portsIn(s.commands, host)
	if len(at) == 0 {
		at = []place{{port: 443}}
	}
	for _, p := range at {
		w := wish{host: host, port: p.port, plain: p.plain, binary: anyProgram, guessed: true}
		if !strings.HasPrefix(d.Reason, "no rule allows") {
			s.leave(w, d.Reason)
			continue
		}
		s.wish(w)
	}
}

// named takes the hosts of the URLs on command lines, for a run of which nothing
// else is known.
func (s *suggester) named() {
	for _, host := range hostsIn(s.commands) {
		for _, p := range portsIn(s.commands, host) {
			s.wish(wish{host: host, port: p.port, plain: p.plain, binary: anyProgram, named: true})
		}
	}
}

func (s *suggester) wish(w wish) {
	if !slices.Contains(s.wishes, w) && len(s.wishes) < maxSuggested {
		s.wishes = append(s.wishes, w)
	}
}

func (s *suggester) leave(w wish, why string) {
	text := w.String() + ": " + why
	if !slices.Contains(s.left, text) && len(s.left) < maxSuggested {
		s.left = append(s.left, text)
	}
}

// suggestion adds what is wished, and proves each addition by asking the policy
// as it will be read.
func (s *suggester) suggestion(c store.Cell, r store.Run, before *policy.Policy) (*api.PolicySuggestion, error) {
	s.wishes = slices.DeleteFunc(s.wishes, func(w wish) bool {
		err := s.add(w)
		if err != nil {
			s.leave(w, err.Error())
		}
		return err != nil
	})
	grown, err := s.caller.parsePolicy(api.PolicyFile{Name: "suggestion", Text: s.policy.Canonical()})
	if err != nil {
		return nil, api.Failf(api.CodePolicy, err, "make a policy of what was denied")
	}
	res := &api.PolicySuggestion{
		Cell: c.Name, RunID: r.ID, PolicyHash: policyHash(grown), Before: policyHash(before), Added: []string{}, Left: []string{}, Unseen: s.unseen,
	}
	for _, w := range s.wishes {
		if x := grown.ExplainRequest(w.request()); x.Allowed {
			res.Added = append(res.Added, w.String())
		} else {
			s.leave(w, x.Reason)
		}
	}
	res.Left = append(res.Left, s.left...)
	if res.Policy, err = json.Marshal(grown); err != nil {
		return nil, err
	}
	res.Text = append(suggestionComment(res), grown.Canonical()...)
	return res, nil
}

// suggestionComment returns the head of a suggested policy's file.
func suggestionComment(p *api.PolicySuggestion) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# The policy of %s in cell %s, and what it was denied. Review it before use.\n", p.RunID, quote.Line(p.Cell))
	if p.Unseen {
		b.WriteString("# The run had no network at all, so what it wanted to connect to was not seen.\n" +
			"# Run it with a network: --policy dev allows the package registries of your own\n" +
			"# tools, `forkcell policy list` shows more. What is denied then is seen, and\n" +
			"# forkcell policy suggest adds it.\n")
	}
	if len(p.Added) == 0 {
		b.WriteString("# Nothing is added.\n")
	}
	for _, text := range p.Added {
		b.WriteString("# added: " + quote.Line(text) + "\n")
	}
	for _, text := range p.Left {
		b.WriteString("# still denied: " + quote.Line(text) + "\n")
	}
	return []byte(b.String())
}
