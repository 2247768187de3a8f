package publish

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/publish/forge"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// settingsFile is the path of a repository's own settings in its base commit.
const settingsFile = ".forkcell/publish.yaml"

// MaxSettings bounds a file of settings.
const MaxSettings = 64 << 10

// Settings are the rules of a publication as a file has them.
type Settings struct {
	Limits Limits `yaml:"limits"`
	// RequireSigned refuses commits that the allowed signers did not sign.
	RequireSigned *bool `yaml:"require_signed"`
	// AllowedSigners is the path of a file as ssh-keygen describes it.
	AllowedSigners string `yaml:"allowed_signers"`
	// AllowControl are patterns of control files that may be published.
	AllowControl []string `yaml:"allow_control"`
	// Branches are patterns of the branches that callers with a token may make.
	Branches []string `yaml:"branches"`
	// Base is the branch to publish on, by default or, in the file of a repository,
	// the only one.
	Base string `yaml:"base"`
	// Forges are the services for pull requests, beside the well-known ones.
	Forges []forge.Forge `yaml:"forges"`
}

// Limits bound the size of a publication.
type Limits struct {
	Files    *int `yaml:"files"`
	Lines    *int `yaml:"lines"`
	Bytes    *int `yaml:"bytes"`
	Areas    *int `yaml:"areas"`
	Binaries *int `yaml:"binaries"`
}

// The limits that hold unless the operator sets others.
const (
	defaultFiles    = 25
	defaultLines    = 1200
	defaultBytes    = 1 << 20
	defaultAreas    = 8
	defaultBinaries = 0
)

// ParseSettings reads a file of settings. Unknown keys are errors.
func ParseSettings(text []byte) (Settings, error) {
	var s Settings
	if len(text) > MaxSettings {
		return s, fmt.Errorf("more than %d bytes", MaxSettings)
	}
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	dec.KnownFields(true)
	if err := dec.Decode(&s); errors.Is(err, io.EOF) {
		return Settings{}, nil
	} else if err != nil {
		return s, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return s, errors.New("more than one document")
	}
	return s, s.check()
}

// check refuses values that mean nothing.
func (s Settings) check() error {
	for name, n := range map[string]*int{
		"files": s.Limits.Files, "lines": s.Limits.Lines, "bytes": s.Limits.Bytes, "areas": s.Limits.Areas, "binaries": s.Limits.Binaries,
	} {
		if n != nil && *n < 0 {
			return fmt.Errorf("limits: %s is negative", name)
		}
	}
	if _, err := secretfiles.NewSelector(s.AllowControl, nil); err != nil {
		return fmt.Errorf("allow_control: %w", err)
	}
	for _, b := range s.Branches {
		if err := checkBranchPattern(b); err != nil {
			return fmt.Errorf("branches: %w", err)
		}
	}
	for _, f := range s.Forges {
		if err := f.Check(); err != nil {
			return fmt.Errorf("forges: %w", err)
		}
	}
	return nil
}

// Rules are the rules of one publication.
type Rules struct {
	Files, Lines, Bytes, Areas, Binaries int
	RequireSigned                        bool
	AllowedSigners                       string
	// Base is the only branch that the base commit allows, or "".
	Base string
	// WithoutEffect lists settings of the base commit that only the operator can make.
	WithoutEffect []string

	allowControl []string
	// branches are lists of patterns. A branch of a caller with a token matches each list.
	branches [][]string
	// ofBase has the limits that the base commit sets, each with that of the operator.
	ofBase map[string]int
}

// combine returns the rules of the operator's settings and those of the base commit,
// which can only tighten.
func combine(own, base Settings) Rules {
	r := Rules{
		Files: defaultFiles, Lines: defaultLines, Bytes: defaultBytes, Areas: defaultAreas, Binaries: defaultBinaries, RequireSigned: true,
		AllowedSigners: own.AllowedSigners, Base: base.Base, allowControl: own.AllowControl, ofBase: map[string]int{},
		branches: [][]string{own.Branches},
	}
	if own.Branches == nil {
		r.branches[0] = defaultBranches()
	}
	if base.Branches != nil {
		r.branches = append(r.branches, base.Branches)
	}
	if own.RequireSigned != nil {
		r.RequireSigned = *own.RequireSigned
	}
	if base.RequireSigned != nil && *base.RequireSigned {
		r.RequireSigned = true
	}
	for _, l := range []struct {
		name      string
		to        *int
		own, base *int
	}{
		{"files", &r.Files, own.Limits.Files, base.Limits.Files},
		{"lines", &r.Lines, own.Limits.Lines, base.Limits.Lines},
		{"bytes", &r.Bytes, own.Limits.Bytes, base.Limits.Bytes},
		{"areas", &r.Areas, own.Limits.Areas, base.Limits.Areas},
		{"binaries", &r.Binaries, own.Limits.Binaries, base.Limits.Binaries},
	} {
		if l.own != nil {
			*l.to = *l.own
		}
		switch {
		case l.base != nil && *l.base > *l.to:
			r.WithoutEffect = append(r.WithoutEffect, "limits."+l.name)
		case l.base != nil:
			r.ofBase[l.name], *l.to = *l.to, *l.base
		}
	}
	for name, set := range map[string]bool{
		"allow_control": len(base.AllowControl) > 0, "allowed_signers": base.AllowedSigners != "", "forges": len(base.Forges) > 0,
		"require_signed": base.RequireSigned != nil && !*base.RequireSigned && r.RequireSigned,
	} {
		if set {
			r.WithoutEffect = append(r.WithoutEffect, name)
		}
	}
	slices.Sort(r.WithoutEffect)
	return r
}
