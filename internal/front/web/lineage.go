package web

import (
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
)

// The measures of the graph, in pixels.
const (
	stepX, stepY = 64, 46
	marginX      = 40
	marginY      = 30
	maxLanes     = 6
)

// lineage is the graph of a cell's states, from left to right.
type lineage struct {
	Width, Height int
	Nodes         []graphNode
	Edges         []string // as paths of SVG
	// Older reports that the first state has states before it that are not shown.
	Older bool
}

// graphNode is a state in the graph.
type graphNode struct {
	api.GraphNode
	X, Y int
	Head bool
	// Forks are the cells that begin here, besides the cell itself.
	Forks []string
	Link  string
}

// Class is the class of the node's colour, which repeats what its title says.
func (n graphNode) Class() string {
	if n.RunID == "" {
		return "calm"
	}
	return mark(n.Decision).Class
}

// Sign is the sign of the state's decision.
func (n graphNode) Sign() string {
	if n.RunID == "" {
		return ""
	}
	return mark(n.Decision).Sign
}

// Tell describes the state in words.
func (n graphNode) Tell() string {
	text := n.CheckpointID + ", made by " + n.Kind
	if n.RunID != "" {
		text += ", run " + n.Outcome + ", " + n.Decision
	}
	for _, name := range n.Names {
		text += ", named " + name
	}
	if n.Head {
		text += ", the present state"
	}
	for _, f := range n.Forks {
		text += ", forked as " + f
	}
	if n.Freed {
		text += ", its files were freed"
	}
	return text
}

// Label is the text below the node.
func (n graphNode) Label() string {
	switch {
	case len(n.Names) > 0:
		return cutText(n.Names[0], 9)
	case n.Kind == "init":
		return "base"
	case n.RunID == "":
		return n.Kind
	}
	id := n.RunID
	return id[max(0, len(id)-4):]
}

func cutText(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}

// newLineage lays out the states of a cell, parents first. The line to the head is the
// first lane; what was left is in lanes below.
func newLineage(cell, head string, states []api.GraphNode) lineage {
	at := map[string]int{}
	for i, s := range states {
		at[s.CheckpointID] = i
	}
	main := map[string]bool{}
	for id := head; id != ""; {
		main[id] = true
		i, known := at[id]
		if !known {
			break
		}
		id = states[i].Parent
	}
	g := lineage{Height: marginY + stepY}
	lanes := map[string]int{}
	ends := map[int]string{} // the last state of each lane
	used := 0
	for i, s := range states {
		lane := 0
		if !main[s.CheckpointID] {
			parent, known := lanes[s.Parent]
			if known && parent > 0 && ends[parent] == s.Parent {
				lane = parent
			} else {
				lane = used%maxLanes + 1
				used++
			}
		}
		lanes[s.CheckpointID], ends[lane] = lane, s.CheckpointID
		n := graphNode{GraphNode: s, X: marginX + i*stepX, Y: marginY + lane*stepY, Head: s.CheckpointID == head}
		for _, h := range s.Heads {
			if h != cell {
				n.Forks = append(n.Forks, h)
			}
		}
		n.Link = path("cells", cell, "files") + query("at", s.CheckpointID)
		if s.RunID != "" {
			n.Link = path("runs", s.RunID)
		}
		if p, known := at[s.Parent]; known {
			g.Edges = append(g.Edges, edge(g.Nodes[p], n))
		} else if s.Parent != "" {
			g.Older = true
		}
		g.Nodes = append(g.Nodes, n)
		g.Height = max(g.Height, n.Y+stepY)
	}
	g.Width = marginX*2 + max(0, len(states)-1)*stepX
	return g
}

// edge returns the path of a line between two nodes.
func edge(from, to graphNode) string {
	if from.Y == to.Y {
		return fmt.Sprintf("M%d %dH%d", from.X, from.Y, to.X)
	}
	bend := from.X + stepX/2
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %dH%d", from.X, from.Y, bend, from.Y, bend, to.Y, bend+stepX/4, to.Y, to.X)
}
