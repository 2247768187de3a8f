package credentials

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/policy/match"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// maxLogin bounds the file of a login, and a file that is copied.
const maxLogin = 1 << 20

// Grant is the part of the credentials that a session's cell and its proxy get. Only files that
// are copied hold a secret.
type Grant struct {
	// Rules are the credentials of the session's policy.
	Rules []policy.Credential
	// Sources are where their values come from, as NAME=SOURCE.
	Sources []string
	// Placeholders are what the cell has in place of the values, by name.
	Placeholders map[string]string
	// Logins are those that the session may use and renew.
	Logins []api.Login
	// Files are written to the cell's home before the agent starts.
	Files []File
	// SSH is nil if the session does not log in to hosts.
	SSH *SSH
	// Used are the keys, each with the way it gets in.
	Used map[string]string
	// Notes are what to say of a credential after its source, by key.
	Notes map[string]string
	// Policies are what the providers of a login need of the network.
	Policies []*policy.Policy

	secrets []SecretCopy
}

// File is a file of the cell's home.
type File struct {
	// Path is below the home.
	Path string
	Text []byte
	// Secret reports that the text is a copy of a secret.
	Secret bool
}

// NewGrant carries out decisions. A credential that is selected and cannot be used is
// an error: a session without it would not be what the operator configured.
func NewGrant(decisions []Decision, h Host) (*Grant, error) {
	g := &Grant{Placeholders: map[string]string{}, Used: map[string]string{}, Notes: map[string]string{}}
	for _, d := range decisions {
		if !d.Selected {
			continue
		}
		if d.Problem != "" {
			return nil, api.Refusef(api.CodeCredential, d.Next, "the credential %s cannot be used: %s", d.Credential, d.Problem)
		}
		g.Used[d.Credential] = d.How
		var err error
		switch {
		case d.How == Copy:
			err = g.copy(d, h)
		case d.Spec.Login != nil:
			err = g.login(d, h)
		default:
			err = g.value(d)
		}
		if err != nil {
			return nil, api.Refusef(api.CodeCredential, "", "the credential %s: %s", d.Credential, err)
		}
	}
	return g, nil
}

// value grants a credential that is one text.
func (g *Grant) value(d Decision) (err error) {
	rule := policy.Credential{Name: d.Credential, ExposeAs: d.Spec.Variable}
	if d.Spec.How == adapter.AsHeader {
		rule.ExposeAs, rule.Header, rule.Format = "", d.Spec.Header, cmp.Or(d.Spec.Format, "{value}")
	} else {
		usePlaces(&rule, d.Spec)
	}
	if rule.Endpoints, err = credentialEndpoints(d.Spec.Endpoints); err != nil {
		return err
	}
	source := cmp.Or(d.Entry.Source, d.Source)
	if name, isFile := d.Entry.Path(); isFile {
		source = "file:" + name
	}
	return g.add(rule, source, d.Spec.Prefix)
}

func (g *Grant) add(rule policy.Credential, source, lead string) error {
	text, err := credential.NewPlaceholder(lead)
	if err != nil {
		return err
	}
	g.Rules = append(g.Rules, rule)
	g.Sources = append(g.Sources, rule.Name+"="+source)
	g.Placeholders[rule.Name] = text
	return nil
}

// origin returns the file of a credential on the host.
func (d Decision) origin(h Host) (string, error) {
	if d.Entry.Resolver != "" {
		return path.Join(h.Home, LoginFile(d.Entry.Resolver)), nil
	}
	name, isFile := d.Entry.Path()
	if !isFile {
		return "", fmt.Errorf("%s is not the absolute path of a file", quote.Line(d.Source))
	}
	return name, nil
}

// copy grants the value itself, as a file.
func (g *Grant) copy(d Decision, h Host) error {
	target := d.Target
	if d.Spec.Login != nil {
		target = d.Spec.Login.File
	}
	text, _, err := d.readFile(h)
	if err != nil {
		return err
	}
	g.Files = append(g.Files, File{Path: target, Text: text, Secret: true})
	var root map[string]any
	if len(d.Spec.Providers) > 0 && json.Unmarshal(text, &root) == nil {
		for _, part := range d.Spec.Providers {
			if slices.ContainsFunc(part.Login.Tokens, func(place string) bool { return at(root, place) != nil }) {
				g.Policies = append(g.Policies, part.Policy.Policy())
			}
		}
	}
	return nil
}

func (d Decision) readFile(h Host) (text []byte, name string, err error) {
	if name, err = d.origin(h); err != nil {
		return nil, "", err
	}
	text, err = h.readAll(name, injection.OpenSecret)
	return text, name, err
}

// login grants a login: a rule and a placeholder for each token, and a file of the
// same form in the cell.
func (g *Grant) login(d Decision, h Host) error {
	text, name, err := d.readFile(h)
	if err != nil {
		return err
	}
	defer clear(text)
	var root map[string]any
	if json.Unmarshal(text, &root) != nil {
		return fmt.Errorf("%s is no JSON object", quote.Path(name))
	}
	shown := map[string]string{}
	for _, part := range d.Spec.Parts() {
		tokens, err := g.tokens(part, name, root, shown)
		if err != nil {
			return err
		}
		if len(tokens) == 0 {
			continue
		}
		l := part.Login
		g.Logins = append(g.Logins, api.Login{
			Key: d.Credential, File: api.Text(name), WriteBack: d.Entry.WriteBack, Tokens: tokens,
			Expires: l.Expires, Scopes: l.Scopes, Refresh: tokenEndpoints(l),
		})
		if len(d.Spec.Providers) > 0 {
			g.Policies = append(g.Policies, part.Policy.Policy())
		}
	}
	if len(shown) == 0 {
		return fmt.Errorf("%s holds no login", quote.Path(name))
	}
	if len(d.Spec.Providers) > 0 {
		g.Notes[d.Credential] = providers(root, shown)
	}
	copied, err := json.MarshalIndent(stub(root, "", shown), "", "  ")
	g.Files = append(g.Files, File{Path: d.Spec.Login.File, Text: append(copied, '\n')})
	return err
}

// tokens grants the tokens of a part of a login that its file has, and adds their
// placeholders to those that are shown, by place.
func (g *Grant) tokens(part adapter.Credential, file string, root map[string]any, shown map[string]string) (out []api.LoginToken, err error) {
	for _, place := range part.Login.Tokens {
		value, _ := at(root, place).(string)
		if value == "" {
			continue
		}
		rule, err := tokenRule(part, place)
		if err != nil {
			return nil, err
		}
		if err := g.add(rule, "json:"+file+"#"+place, credential.LeadOf(value, part.Prefix)); err != nil {
			return nil, err
		}
		shown[place] = g.Placeholders[rule.Name]
		out = append(out, api.LoginToken{Credential: rule.Name, Place: place, Lead: part.Prefix})
	}
	return out, nil
}

// providers says which entries of a login a session has, and which stay out.
func providers(root map[string]any, shown map[string]string) string {
	var in, out []string
	for key, entry := range root {
		if _, is := entry.(map[string]any); !is {
			continue
		}
		if slices.ContainsFunc(tokensBelow(shown), func(p string) bool { return strings.HasPrefix(p, key+".") }) {
			in = append(in, quote.Arg(key))
		} else {
			out = append(out, quote.Arg(key))
		}
	}
	slices.Sort(in)
	text := ": " + strings.Join(in, ", ")
	if len(out) > 0 {
		slices.Sort(out)
		text += "; unknown and left out: " + strings.Join(out, ", ")
	}
	return text
}

// at returns the value at a place: keys, joined by dots.
func at(root any, place string) any {
	for key := range strings.SplitSeq(place, ".") {
		object, _ := root.(map[string]any)
		root = object[key]
	}
	return root
}

// maxPlain is the length of the longest text of a login that the cell gets besides
// placeholders.
const maxPlain = 64

// stub returns a login for the cell: placeholders, and of the rest what does not look
// like a secret. Objects without a token are left out; so are long texts.
func stub(object map[string]any, prefix string, shown map[string]string) map[string]any {
	out := map[string]any{}
	for key, v := range object {
		place := strings.TrimPrefix(prefix+"."+key, ".")
		if text, ok := shown[place]; ok {
			out[key] = text
			continue
		}
		switch v := v.(type) {
		case map[string]any:
			if slices.ContainsFunc(tokensBelow(shown), func(p string) bool { return strings.HasPrefix(p, place+".") }) {
				out[key] = stub(v, place, shown)
			}
		case string:
			if plain(key, v) {
				out[key] = v
			}
		case []any:
			if list := words(key, v); list != nil {
				out[key] = list
			}
		default: // a number, true, false or null
			out[key] = v
		}
	}
	return out
}

func tokensBelow(shown map[string]string) []string {
	var out []string
	for place := range shown {
		out = append(out, place)
	}
	return out
}

// plain reports whether a text does not look like a secret, by the name of its key, its
// length and its form.
func plain(key, text string) bool {
	low := strings.ToLower(key)
	return len(text) <= maxPlain && low != "access" && low != "refresh" && len(redact.Find([]byte(text))) == 0 &&
		!slices.ContainsFunc([]string{"token", "secret", "password", "key", "cookie", "credential"}, func(w string) bool { return strings.Contains(low, w) })
}

// words returns a list of plain texts, such as the scopes of a login; nil for any
// other list.
func words(key string, list []any) []string {
	out := []string{}
	for _, v := range list {
		s, ok := v.(string)
		if !ok || !plain(key, s) {
			return nil
		}
		out = append(out, s)
	}
	return out
}

// tokenRule returns the rule of one token of a login. The token that renews goes only
// to the token endpoints, and the others never go there.
func tokenRule(c adapter.Credential, place string) (policy.Credential, error) {
	last := place[strings.LastIndexByte(place, '.')+1:]
	rule := policy.Credential{Name: c.Key + "." + last, ExposeAs: "FORKCELL_" + variable(c.Key+"_"+last)}
	renews := false
	var refresh []adapter.Endpoint
	for _, e := range c.Login.Refresh {
		refresh = append(refresh, adapter.Endpoint{Host: e.Host, Port: e.Port, Path: e.Path})
		for _, p := range e.Request {
			renews = renews || p == place
		}
	}
	places := refresh
	rule.KeepInBody = true
	if !renews {
		usePlaces(&rule, c)
		places = slices.DeleteFunc(slices.Clone(c.Endpoints), func(e adapter.Endpoint) bool { return slices.Contains(refresh, e) })
	}
	var err error
	rule.Endpoints, err = credentialEndpoints(places)
	return rule, err
}

// usePlaces sets the parts of a request in which a placeholder of an agent is replaced. In
// bodies it stays as it is: an agent shows its service what it has read.
func usePlaces(rule *policy.Credential, c adapter.Credential) {
	for _, h := range c.Headers {
		rule.ReplaceInHeaders = append(rule.ReplaceInHeaders, http.CanonicalHeaderKey(h))
	}
	rule.ReplaceInQuery = slices.Clone(c.Query)
	slices.Sort(rule.ReplaceInHeaders)
	slices.Sort(rule.ReplaceInQuery)
	rule.KeepInBody = true
}

// variable returns a text as the name of a variable.
func variable(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToUpper(s))
}

func credentialEndpoints(list []adapter.Endpoint) ([]policy.CredentialEndpoint, error) {
	var out []policy.CredentialEndpoint
	for _, e := range list {
		host, err := match.NewHost(e.Host)
		if err != nil {
			return nil, err
		}
		where, err := match.NewURLPath(cmp.Or(e.Path, "/**"), false)
		if err != nil {
			return nil, err
		}
		out = append(out, policy.CredentialEndpoint{Host: host, Ports: []uint16{uint16(e.Port)}, Path: where})
	}
	return out, nil
}

func tokenEndpoints(l *adapter.Login) []api.TokenEndpoint {
	var out []api.TokenEndpoint
	for _, e := range l.Refresh {
		out = append(out, api.TokenEndpoint{Host: e.Host, Port: uint16(e.Port), Path: e.Path, Form: e.Form, Passed: e.Passed, Request: e.Request, Answer: e.Answer})
	}
	return out
}
