package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// participles are words that say neither what a function does nor what a type is: an action
// is a verb, a report begins with is or has, a value or a type is a noun.
func participles() []string {
	return strings.Fields(`
		above adopted again alike alone apart appended applied asked assigned attached
		began begun behind below beneath between beyond bounded broken
		cached captured changed checked chosen cloned committed compiled composed copied counted crowded
		decided declared died displaced dropped edited elsewhere ended exiting extended
		fallen fielded fixed followed forged forked found framed
		given gone granted greeted grown guarded halved handed happening heard hidden hinted
		ignored inherited inspected installed joined kept lacking layered limited linked listed
		logged loosened lost marked masked measured merged mirrored misdirected missed missing moved
		named nearest needed needs nothing noted nowhere numbered
		observed occupied opened outside paged parsed passed patched picked pinned placed planned
		present printed published quoted reached reaped received recorded recovered referred refused
		regrouped removed renamed replayed reported requested resolved restricted resumed rewound
		said saved scaled seated seen selected sent served settled shaped shared shown signed skipped
		some sorted spoken started starting stored suggested switched
		taken timed together told took touched traced tracked trailed tried trusted typed
		unaccepted unanswered unapplied unattended unattributed unbranch unbroken unchanged unclosed
		uncommitted uncopied uncovered undecided undelivered undone unencoded unenforced unfinished
		unforeseen unheard uninspected unlisted unmoved unneeded unpaused unpushed unread unreadable
		unreported unseen unstarted unsupported unticked untracked untried unwanted
		used vanished verified waited wanted watched what whole why worded written`)
}

// allowedNames are names of that kind that stay, as package and name.
func allowedNames() []string {
	return []string{
		// Pages call these from their templates.
		"internal/front/web changes.Paged",
		"internal/front/web raceLine.Took",
		"internal/front/web runBody.Took",
		"internal/front/web runBody.Ended",
		// Cell.Gone is a channel, as Done of a context.
		"internal/sandbox/driver Cell.Gone",
		"internal/sandbox/driver/gvisor Cell.Gone",
		"internal/sandbox/driver/native Cell.Gone",
		"internal/sandbox/driver/native template.Gone",
		// These go with policy.Both.
		"internal/policy Filesystem.listed",
		"internal/policy needed",
		"internal/policy/match apart",
		"internal/policy/match Path.apart",
		"internal/policy shared",
		"internal/policy reader.bounded",
		// These are still to be renamed.
		"bench session.kept",
		"bench heldReport.took",
		"bench holdings.grown",
		"bench daemon.occupied",
		"bench site.between",
		"bench bench.undecided",
		"internal/engine/token Limiter.Used",
		"internal/engine/token Whole",
		"internal/engine/transfer Received",
		"internal/evidence/event Found",
		"internal/evidence/event dropped",
		"internal/front/web/highlight between",
		"internal/front/web/highlight quoted",
		"internal/network/egress/authority Saved",
		"internal/network/egress conn.why",
		"internal/network/egress/credential Applied",
		"internal/network/egress/credential Line.Uncovered",
		"internal/network/egress/credential nowhere",
		"internal/network/egress/credential use.bounded",
		"internal/network/egress/credential entry.shown",
		"internal/network/egress misdirected",
		"internal/network/egress/names Saved",
		"internal/network/egress beyond",
		"internal/policy/injection elsewhere",
		"internal/sandbox/driver/drivertest host.inherited",
		"internal/sandbox/driver/drivertest host.shown",
		"internal/sandbox/driver/drivertest reached",
		"internal/sandbox/driver/gvisor Cell.heard",
		"internal/sandbox/driver/gvisor/frames Sender.written",
		"internal/sandbox/driver/gvisor/frames Sender.Taken",
		"internal/sandbox/driver/native/cellinit executor.ended",
		"internal/sandbox/driver/native walk.reached",
		"internal/sandbox/driver/native present",
		"internal/sandbox/driver/native sight.below",
		"internal/sandbox/driver/native Cell.Refused",
		"internal/sandbox/driver Captured",
		"internal/sandbox/driver Saved",
		"internal/sandbox/kernel/capture/origin seen",
		"internal/sandbox/kernel/cgroup missing",
		"internal/sandbox/kernel/landlock Applied",
		"internal/sandbox/kernel/landlock Applied.Missing",
		"internal/sandbox/kernel/terminal typed",
		"internal/sandbox/live/supervise Ended",
		"internal/sandbox/live/supervise Host.Ended",
		"internal/sandbox/live/supervise Host.unbranch",
		"internal/session refused",
		"internal/session/credentials Why",
		"internal/session/credentials copied",
		"internal/session Host.Why",
		"internal/session quoted",
		"internal/storage/archive named",
		"internal/storage/gitread unsupported",
		"internal/storage/secretfiles Named",
		"internal/storage/tree Below",
		"internal/storage/tree differ.below",
		"internal/storage/tree kept",
		"internal/storage/workspace removing.shown",
		"internal/testkit/otlptest Collector.Opened",
		"scripts/runtests results.took",
	}
}

// TestNames finds functions, methods and types whose name is a bare participle.
func TestNames(t *testing.T) {
	t.Parallel()
	words, allowed, used := participles(), allowedNames(), map[string]bool{}
	seen := 0
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || hasOtherNames(name) {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, read(t, name), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if ast.IsGenerated(f) {
			continue
		}
		for _, d := range declaredNames(f) {
			seen++
			if !slices.Contains(words, strings.ToLower(d[strings.LastIndex(d, ".")+1:])) {
				continue
			}
			key := filepath.ToSlash(filepath.Dir(name)) + " " + d
			used[key] = true
			if !slices.Contains(allowed, key) {
				t.Errorf("%s: %s is a bare participle: a verb for an action, is or has for a report, a noun for a thing", name, d)
			}
		}
	}
	for _, key := range allowed {
		if !used[key] {
			t.Errorf("allowedNames has %q, which is not declared any more", key)
		}
	}
	if seen < 5000 {
		t.Errorf("only %d names were found", seen)
	}
}

// hasOtherNames reports whether the names of a file are an interface to others.
func hasOtherNames(name string) bool {
	for _, dir := range []string{"client/", "receipt/", "internal/api/", "examples/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return strings.Contains(name, "/testdata/")
}

// declaredNames returns the functions, methods as Type.Method, and types of a file.
func declaredNames(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, receiverName(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				ts, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				names = append(names, ts.Name.Name)
				if it, ok := ts.Type.(*ast.InterfaceType); ok {
					for _, m := range it.Methods.List {
						for _, id := range m.Names {
							names = append(names, ts.Name.Name+"."+id.Name)
						}
					}
				}
			}
		}
	}
	return names
}

// receiverName returns the type of a method with a dot; "" for a function.
func receiverName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	switch x := t.(type) {
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}
