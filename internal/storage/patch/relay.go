package patch

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxLine bounds a line of a text that is relayed. A line of contents is at most 1 MiB
// before it is escaped.
const maxLine = 16 << 20

// Relay shows what another program wrote as a patch or as statistics, without colours.
// It is as Write would show it. That program may be a stranger's: what does not show is
// escaped.
func Relay(w io.Writer, r io.Reader, opt Options) error {
	p := &printer{w: bufio.NewWriterSize(w, 64<<10), opt: opt}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var at hunk
	for lines.Scan() {
		line := lines.Text()
		if !quote.Visible(line) {
			line = quote.Content(line)
		}
		if opt.Mode == Stat {
			p.relayStat(line)
		} else {
			p.line(at.colour(line), "%s", line)
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a diff: %w", err)
	}
	return p.flush()
}

// hunk is how many lines of each side the present hunk still has.
type hunk struct{ from, to int }

var (
	spanLine = pattern(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)
	modeLine = pattern(`^(old|new) ([a-z]+ )?mode [0-7]+$`)
	barLine  = pattern(`^( .* \| \d+ )(\+*)(-*)$`)
)

// pattern returns an expression that is compiled when it is first used: most commands
// show no diff.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// colour returns the colour of the next line of a patch.
func (h *hunk) colour(line string) colour {
	if h.from > 0 || h.to > 0 {
		return h.content(line)
	}
	if m := spanLine().FindStringSubmatch(line); m != nil {
		h.from, h.to = length(m[1]), length(m[2])
		return cyan
	}
	switch {
	case strings.HasPrefix(line, `\`):
		return plain
	case modeLine().MatchString(line):
		return bold
	case strings.HasPrefix(line, "new "):
		return green
	case strings.HasPrefix(line, "old "):
		return red
	}
	return bold
}

// content returns the colour of a line of contents.
func (h *hunk) content(line string) colour {
	switch {
	case strings.HasPrefix(line, "+"):
		h.to--
		return green
	case strings.HasPrefix(line, "-"):
		h.from--
		return red
	case !strings.HasPrefix(line, `\`):
		h.from--
		h.to--
	}
	return plain
}

// length returns the number of lines in the position of a hunk, which is 1 if it is
// left out.
func length(text string) int {
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// relayStat shows a line of statistics.
func (p *printer) relayStat(line string) {
	if m := barLine().FindStringSubmatch(line); p.opt.Color && m != nil {
		line = m[1] + string(green) + m[2] + reset + string(red) + m[3] + reset
	}
	p.line(plain, "%s", line)
}
