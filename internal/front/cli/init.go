package cli

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// backends returns the values of init --backend.
func backends() []string { return []string{"overlay", "clone", "delta"} }

type initOptions struct {
	from       string
	backend    string
	policy     string
	runtime    string
	exclude    []string
	noDefaults bool
	mountAt    string
	readOnly   []string
	cache      string
	settings   settingFlags
}

func newInit(s *frame) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init NAME --from DIR|FILE.tar[.zst]",
		Short: "Make a cell from a directory or an exported archive",
		Long: `Make a cell from a directory or an exported archive.

The output says what was imported, which backend was chosen and why, which paths the
secret rules left out, and which ids cannot be mapped. Files that git tracks are
kept, and listed. Without --backend, Forkcell takes overlay if it works here, else
clone. An explicit --backend never falls back to another.`,
		Example: `  forkcell init demo --from ./project
  forkcell init demo --from ./project --exclude 'node_modules/' --ro ~/.cargo/bin`,
		Args: positional("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if err := o.check(cmd); err != nil {
				return err
			}
			if s.lacks(o.from) {
				return s.handOver()
			}
			req, err := o.request(cmd, s, args[0])
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Create, func(ctx context.Context, e Engine) error { return runInit(ctx, s, e, req) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "import `DIR|FILE`: a directory, or an archive made by export")
	f.StringVar(&o.backend, "backend", "", "how states are kept: `overlay|clone|delta` (default: the first of overlay and clone that works)")
	f.StringVar(&o.policy, "policy", "", "the cell's policy `FILE`, for runs without one of their own")
	addRuntimeFlag(f, &o.runtime, " (default: native)")
	f.StringArrayVar(&o.exclude, "exclude", nil, "leave out what matches this gitignore-style `PATTERN` (repeatable)")
	f.BoolVar(&o.noDefaults, "no-default-excludes", false, "import secret-looking files too")
	f.StringVar(&o.mountAt, "mount-at", "", "absolute `PATH` of the workspace in the cell (default: the source's own)")
	f.StringArrayVar(&o.readOnly, "ro", nil, "show this host `PATH` read-only in every run (repeatable)")
	addCacheFlag(f, &o.cache, ", for every run (default: off)")
	o.settings.addFlags(f)
	return cmd
}

func (o initOptions) check(cmd *cobra.Command) error {
	if o.from == "" {
		return usageError("usage: "+usageLine(cmd), "%s: missing --from", verb(cmd))
	}
	if o.backend != "" {
		if err := oneOf(cmd, "backend", o.backend, backends()...); err != nil {
			return err
		}
	}
	if err := checkCache(cmd, o.cache); err != nil {
		return err
	}
	return checkRuntime(cmd, o.runtime)
}

func (o initOptions) request(cmd *cobra.Command, s *frame, name string) (api.InitRequest, error) {
	req := api.InitRequest{
		Name: name, From: o.from, Backend: o.backend, Runtime: o.runtime, Exclude: o.exclude,
		NoDefaultExcludes: o.noDefaults, MountAt: o.mountAt, ReadOnly: o.readOnly,
		Cache: o.cache,
	}
	var err error
	if req.Settings, err = o.settings.settings(cmd); err != nil {
		return req, err
	}
	if cmd.Flags().Changed("policy") {
		req.Policy, err = s.readPolicy(verb(cmd), o.policy)
	}
	return req, err
}

func runInit(ctx context.Context, s *frame, e maker, req api.InitRequest) error {
	res, err := initCell(ctx, s, e, req)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) { printInit(p, res) })
}

// largeImport is the size of a directory above which the user is asked whether to
// import it: a home directory named by mistake is larger.
const largeImport = 1 << 30

// initCell makes a cell. If the source is large, a person at the terminal is asked;
// without a terminal a note is printed.
func initCell(ctx context.Context, s *frame, e maker, req api.InitRequest) (*api.InitResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	report, done := s.progress()
	ask := func(question string) (string, error) { return s.ask(ctx, question) }
	large := &largeGuard{session: s, from: req.From, next: report, clear: done, ask: ask, cancel: cancel}
	s.progressTo = large.report
	defer func() { s.progressTo = nil }()
	res, err := e.Init(ctx, req)
	done()
	if large.declined {
		return nil, refusal(api.CodeDeclined, "--exclude PATTERN leaves things out", "init: %s was not imported", quote.Path(req.From))
	}
	return res, err
}

// notedCell says what became of a directory that a cell was made from on the way to
// something else: how much was left out, and which files that look secret were kept.
func (s *frame) notedCell(res *api.InitResult) {
	left := ""
	if n := len(res.LeftOut); n > 0 {
		left = ", " + count(int64(n), "path", "paths") + " left out by the secret rules"
	}
	s.note("cell " + quote.Line(res.Cell) + " made from " + quote.Path(res.Source) + ": " + count(res.Files, "file", "files") + ", " + size(res.Bytes) + left)
	const most = 10
	kept := make([]string, 0, most)
	for _, path := range res.KeptByGit[:min(most, len(res.KeptByGit))] {
		kept = append(kept, quote.Path(path))
	}
	if n := len(res.KeptByGit) - most; n > 0 {
		kept = append(kept, count(int64(n), "other", "others"))
	}
	if len(kept) > 0 {
		s.note("in the cell although they look secret, because git tracks them: " + strings.Join(kept, ", ") + "; init --exclude leaves them out")
	}
}

// largeGuard watches the progress of an import, and pauses it while it asks.
type largeGuard struct {
	session *frame
	from    string
	next    func(api.Progress)
	clear   func()
	ask     func(question string) (string, error)
	cancel  context.CancelFunc

	mu       sync.Mutex
	asked    bool
	declined bool
}

func (g *largeGuard) report(at api.Progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked && at.Bytes > largeImport {
		g.asked = true
		g.decide(at)
	}
	if g.next != nil && !g.declined {
		g.next(at)
	}
}

func (g *largeGuard) decide(at api.Progress) {
	s := g.session
	fact := quote.Path(g.from) + " is large: " + count(at.Files, "file", "files") + " and " + size(at.Bytes) + " so far"
	if s.json || s.quiet || !s.atTerminal() {
		s.note(fact + "; --exclude PATTERN leaves things out")
		return
	}
	g.clear()
	g.confirm(fact)
}

// confirm asks whether to go on. A signal at the question has ended the import already.
func (g *largeGuard) confirm(fact string) {
	answer, err := g.ask("forkcell: " + fact + ". Import it [y/N]? ")
	if errors.Is(err, errInterrupted) {
		return
	}
	if err != nil || answer != "y" && answer != "yes" {
		g.declined = true
		g.cancel()
	}
}

func printInit(p *page, r *api.InitResult) {
	p.printf("cell %s: %s, %s, %s from %s\n", quote.Line(r.Cell), count(r.Files, "file", "files"),
		count(r.Dirs, "directory", "directories"), size(r.Bytes), quote.Path(r.Source))
	p.pairs(
		"backend", r.Backend+note(r.BackendReason),
		"workspace", quote.Path(r.MountAt),
		"checkpoint", r.CheckpointID,
		"root", r.Root,
	)
	printLeftOut(p, r.LeftOut)
	if len(r.KeptByGit) > 0 {
		p.printf("kept although they look secret, because git tracks them: %d\n", len(r.KeptByGit))
		for _, path := range r.KeptByGit {
			p.printf("  %s\n", quote.Path(path))
		}
	}
	if len(r.UnmappedIDs) > 0 {
		p.printf("ids that show as nobody in the cell: %s\n", quote.Line(strings.Join(r.UnmappedIDs, ", ")))
	}
	printNotes(p, r.Notes)
}

func printLeftOut(p *page, list []api.LeftOut) {
	if len(list) == 0 {
		return
	}
	p.printf("left out: %d\n", len(list))
	for _, l := range list {
		p.printf("  %s%s\n", quote.Path(l.Path), note(quote.Line(l.Rule)))
	}
}

func printNotes(p *page, notes []string) {
	for _, n := range notes {
		p.printf("note: %s\n", quote.Line(n))
	}
}

func printPathNotes(p *page, title string, list []api.PathNote) {
	if len(list) == 0 {
		return
	}
	p.printf("%s: %d\n", title, len(list))
	for _, n := range list {
		p.printf("  %s%s\n", quote.Path(rawPath(n.Path, n.PathBase64)), note(quote.Line(n.Note)))
	}
}

// note puts a remark in parentheses.
func note(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
