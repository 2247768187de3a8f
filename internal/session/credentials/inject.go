package credentials

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Document returns the file below the home from which an agent reads instructions of
// its user; "" if there is none.
func Document(agent string) string {
	switch agent {
	case "claude":
		return ".claude/CLAUDE.md"
	case "codex":
		return ".codex/AGENTS.md"
	case "gemini":
		return ".gemini/GEMINI.md"
	case "opencode":
		return ".config/opencode/AGENTS.md"
	}
	return ""
}

// Inject adds the instructions and the copies of an injection policy for an agent in a
// mode, and its keys for SSH. What the policy asks for and a session cannot have is an
// error.
func (g *Grant) Inject(p *injection.Policy, agent, mode string, h Host) error {
	if p == nil {
		return nil
	}
	var err error
	if g.SSH, err = ReadSSH(p, agent, mode, h); err != nil {
		return err
	}
	if err := g.instruct(p, agent, h); err != nil {
		return err
	}
	for _, c := range p.Copies {
		if !c.Selects(agent, mode) {
			continue
		}
		open := injection.OpenPublic
		if c.Secret {
			open = injection.OpenSecret
		}
		text, err := h.readAll(c.Source, open)
		if err != nil {
			return fileError("the copy", c.Source, "a copy is one file of yours", err)
		}
		if taken := g.overlaps(c.Target); taken != "" {
			return api.Usagef("", "the injection policy: the target ~/%s is taken by ~/%s", quote.Line(c.Target), quote.Line(taken))
		}
		g.Files = append(g.Files, File{Path: c.Target, Text: text, Secret: c.Secret})
		if c.Secret {
			g.secrets = append(g.secrets, SecretCopy{Key: "copy of ~/" + c.Target, Source: quote.Path(c.Source)})
		}
	}
	return nil
}

// overlaps returns the file that is at, above or below a path; "" if none is.
func (g *Grant) overlaps(target string) string {
	for _, f := range g.Files {
		if target == f.Path || strings.HasPrefix(target, f.Path+"/") || strings.HasPrefix(f.Path, target+"/") {
			return f.Path
		}
	}
	return ""
}

// SecretCopy is a secret file that the policy copies into the cell.
type SecretCopy struct{ Key, Source string }

// Copies returns the secret files that Inject added. They lower the assurance of the
// session, as a copied credential does.
func (g *Grant) Copies() []SecretCopy { return g.secrets }

// instruct adds the operator's instructions: those for all agents, then the agent's.
func (g *Grant) instruct(p *injection.Policy, agent string, h Host) error {
	target := Document(agent)
	own, hasOwn := p.Documents[agent]
	if target == "" && hasOwn {
		return api.Usagef("", "the injection policy has a document for %s, which reads none", quote.Arg(agent))
	}
	if target == "" {
		return nil
	}
	var text []byte
	common, hasCommon := p.Documents["common"]
	for _, d := range []struct {
		path  string
		there bool
	}{{common, hasCommon}, {own, hasOwn}} {
		if !d.there {
			continue
		}
		part, err := h.readAll(d.path, injection.OpenPublic)
		if err != nil {
			return fileError("the document", d.path, "make it, or leave it out of the injection policy", err)
		}
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, part...)
	}
	if len(text) > 0 {
		g.Files = append(g.Files, File{Path: target, Text: text})
	}
	return nil
}

// readAll reads a file that is opened with checks of its owner and its place.
func (h Host) readAll(name string, open func(name, workspace string) (*os.File, error)) ([]byte, error) {
	f, err := open(name, h.Workspace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxLogin+1))
	if err == nil && len(text) > maxLogin {
		err = fmt.Errorf("it is larger than %d bytes", maxLogin)
	}
	return text, err
}
