package network

import (
	"encoding/json"
	"fmt"

	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/authority"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/network/egress/names"
)

// savedGateway is the part of a gateway that the programs of its cell know. It has no value of a
// credential.
type savedGateway struct {
	Authority   authority.Saved             `json:"authority"`
	Names       names.Saved                 `json:"names"`
	Credentials map[string]credential.Known `json:"credentials"`
}

// Save returns what the programs of the cell know of the gateway, to keep it with their
// memory. It holds the key of the cell's authority.
func (g *Gateway) Save() ([]byte, error) {
	a, err := g.ca.Save()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return json.Marshal(savedGateway{Authority: a, Names: g.table.Save(), Credentials: g.gen.Credentials.Known()})
}

// Known returns what the programs of the cell know of its credentials, for a later
// gateway of the cell: placeholders and what stands before them, and no value. It is "" if
// there are no credentials.
func (g *Gateway) Known() (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.gen.Credentials.Known()
	if len(known) == 0 {
		return "", nil
	}
	text, err := json.Marshal(known)
	return string(text), err
}

// recall gives a Set what an earlier gateway of the cell returned as Known.
func recall(set *credential.Set, text string) error {
	if text == "" {
		return nil
	}
	var known map[string]credential.Known
	if err := json.Unmarshal([]byte(text), &known); err != nil {
		return fmt.Errorf("the placeholders of earlier runs: %w", err)
	}
	set.Recall(known)
	return nil
}

// Load returns a gateway that was saved. It serves nothing: it is the Source of others.
func Load(data []byte) (*Gateway, error) {
	var s savedGateway
	err := json.Unmarshal(data, &s)
	if err != nil {
		return nil, fmt.Errorf("a saved network: %w", err)
	}
	g := &Gateway{gen: &egress.Generation{Credentials: credential.FromKnown(s.Credentials)}}
	if g.ca, err = authority.Load(s.Authority); err != nil {
		return nil, err
	}
	if g.table, err = names.Load(s.Names); err != nil {
		return nil, fmt.Errorf("a saved network: %w", err)
	}
	return g, nil
}
