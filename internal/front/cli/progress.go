package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// How often progress is written: to a terminal, and as lines to anything else.
const (
	barInterval  = 100 * time.Millisecond
	lineInterval = 2 * time.Second
)

// progress shows on stderr how far long work has come. The engine calls report
// from any goroutine.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	now      func() time.Time
	terminal bool
	last     time.Time
	drawn    bool
}

// showProgress displays the progress of the next verb until done is called. The
// caller calls done before it writes anything else. With --quiet and --json nothing
// is shown.
func (s *frame) showProgress() (done func()) {
	report, end := s.progress()
	s.progressTo = report
	return func() {
		end()
		s.progressTo = nil
	}
}

// reportProgress hands progress to the display, if there is one.
func (s *frame) reportProgress(at api.Progress) {
	if s.progressTo != nil {
		s.progressTo(at)
	}
}

func (s *frame) progress() (report func(api.Progress), done func()) {
	if s.quiet || s.json {
		return nil, func() {}
	}
	_, isTerminal := terminal(s.streams.Err)
	p := &progress{w: s.streams.Err, now: s.now, terminal: isTerminal, last: s.now()}
	return p.report, p.done
}

func (p *progress) report(at api.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	interval := lineInterval
	if p.terminal {
		interval = barInterval
	}
	now := p.now()
	if now.Sub(p.last) < interval {
		return
	}
	p.last = now
	if !p.terminal {
		_, _ = fmt.Fprintf(p.w, "forkcell: %s\n", progressText(at))
		return
	}
	p.drawn = true
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s%s", bar(at), progressText(at))
}

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.drawn = false
	}
	// Later reports must not write over other output.
	p.last = p.now().Add(24 * time.Hour)
}

func progressText(at api.Progress) string {
	files := count(at.Files, "file", "files")
	if at.TotalFiles > 0 {
		files = number(at.Files) + " of " + count(at.TotalFiles, "file", "files")
	}
	return fmt.Sprintf("%s: %s, %s", quote.Line(at.What), files, size(at.Bytes))
}

func bar(at api.Progress) string {
	if at.TotalFiles <= 0 {
		return ""
	}
	const width = 24
	full := int(min(at.Files, at.TotalFiles) * width / at.TotalFiles)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "] "
}
