package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// maxReason bounds the reason of a decision.
const maxReason = 4000

// acting returns an engine that changes a cell only if it is still as the page showed
// it.
func (q *request) acting() (Engine, error) {
	n, err := strconv.ParseInt(q.PostForm.Get("revision"), 10, 64)
	if err != nil || n < 0 {
		return nil, api.Usagef("go back and reload the page", "the form does not say which state it is about")
	}
	return q.visit.Engine(&n), nil
}

// reason returns the reason of a form.
func (q *request) reason() (string, error) {
	text := strings.TrimSpace(q.PostForm.Get("reason"))
	if len(text) > maxReason {
		return "", api.Usagef("shorten it", "the reason is longer than %d bytes", maxReason)
	}
	return text, nil
}

// deciding returns what a decision needs: an engine, and the reason of the form. The
// caller must be allowed to make it.
func (q *request) deciding(o op.Any) (Engine, string, error) {
	if err := q.need(o); err != nil {
		return nil, "", err
	}
	reason, err := q.reason()
	if err != nil {
		return nil, "", err
	}
	engine, err := q.acting()
	return engine, reason, err
}

// decide accepts, rejects or restores a run.
func (q *request) decide() error {
	what := q.PostForm.Get("do")
	verb, known := map[string]op.Any{"accept": op.Accept, "reject": op.Reject, "restore": op.Restore}[what]
	if !known {
		return api.Usagef("use the buttons of the page", "unknown decision")
	}
	info, err := q.run()
	if err != nil {
		return err
	}
	engine, reason, err := q.deciding(verb)
	if err != nil {
		return err
	}
	done := what + "ed"
	switch what {
	case "accept":
		done, err = q.accept(engine, info, reason)
	case "reject":
		_, err = engine.Reject(q.Context(), info.Cell, info.RunID, reason)
	case "restore":
		done = "restored"
		_, err = engine.Restore(q.Context(), api.RestoreRequest{Cell: info.Cell, Run: info.RunID, Reason: reason})
	}
	if err != nil {
		return err
	}
	return q.goTo(path("runs", info.RunID) + "?done=" + done)
}

// accept accepts the ticked files of the work that the page showed, leaves out earlier
// undecided work that it named, and returns the word for what was done.
func (q *request) accept(engine Engine, info *api.RunInfo, reason string) (done string, err error) {
	left, err := q.untickedPaths()
	if err != nil {
		return "", err
	}
	done = "accepted"
	if len(left) > 0 {
		done = "partly"
	}
	_, err = engine.Accept(q.Context(), api.AcceptRequest{
		Cell: info.Cell, Run: info.RunID, Runs: q.PostForm["shown"], LeaveOut: q.PostForm["leave"], Reason: reason, Force: q.PostForm.Get("force") == "yes", ExceptPaths: left,
	})
	return done, err
}

// untickedPaths returns the paths of the files that a form listed and that are not ticked,
// and of those that were unticked on other pages of the list. Of a renamed file these
// are both paths.
func (q *request) untickedPaths() ([]string, error) {
	ticked := q.PostForm["path"]
	values := slices.DeleteFunc(slices.Clone(q.PostForm["listed"]), func(v string) bool { return slices.Contains(ticked, v) })
	var left []string
	for _, value := range append(values, q.PostForm["left"]...) {
		for name := range strings.SplitSeq(value, "&") {
			name, err := url.QueryUnescape(name)
			if err != nil {
				return nil, api.Usagef("reload the page", "malformed path in the form")
			}
			left = append(left, name)
		}
	}
	return left, nil
}

// pattern returns the pattern that matches exactly one path. A pattern cannot have a line
// end, so that one is matched by the narrowest range around it.
func pattern(name string) string {
	var b strings.Builder
	b.WriteByte('/')
	for i := range len(name) {
		if name[i] == '\n' {
			b.WriteString("[\t-\v]")
			continue
		}
		if strings.IndexByte(`*?[]\!# `, name[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// restore takes a cell back to a state.
func (q *request) restore() error {
	name, err := q.cell()
	if err != nil {
		return err
	}
	engine, reason, err := q.deciding(op.Restore)
	if err != nil {
		return err
	}
	if _, err := engine.Restore(q.Context(), api.RestoreRequest{Cell: name, Checkpoint: q.PostForm.Get("checkpoint"), Reason: reason}); err != nil {
		return err
	}
	return q.goTo(path("cells", name) + "?done=restored")
}
