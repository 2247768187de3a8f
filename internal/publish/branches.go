package publish

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// defaultBranches are the patterns of branches that a caller with a token may make. The
// name of a branch can deploy it: gh-pages is a site, and a workflow on push names
// branches such as production.
func defaultBranches() []string { return []string{"work/**", "forkcell/**"} }

// checkBranchPattern refuses what is no pattern of branches.
func checkBranchPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.HasPrefix(pattern, "/") {
		return fmt.Errorf("%s is not a pattern of branches", quote.Arg(pattern))
	}
	return nil
}

// checkBranch refuses a branch that a caller with a token may not make.
func (r *Rules) checkBranch(branch string) error {
	for _, list := range r.branches {
		if !slices.ContainsFunc(list, func(p string) bool { return matchBranch(p, branch) }) {
			names := strings.Join(list, ", ")
			if names == "" {
				names = "none"
			}
			return api.Refusef(api.CodeGate, "the operator lists others under branches in publish.yaml",
				"a caller with a token may not make the branch %s; it may make %s", quote.Arg(branch), quote.Line(names))
		}
	}
	return nil
}

// matchBranch reports whether a branch matches a pattern: * stands for any characters of
// a part, and ** at the end for at least one part.
func matchBranch(pattern, branch string) bool {
	if above, deep := strings.CutSuffix(pattern, "**"); deep && (above == "" || strings.HasSuffix(above, "/")) {
		n := strings.Count(above, "/")
		parts := strings.SplitN(branch, "/", n+1)
		if len(parts) != n+1 {
			return false
		}
		ok, _ := path.Match(above, strings.Join(parts[:n], "/")+strings.Repeat("/", min(n, 1)))
		return ok && parts[n] != ""
	}
	ok, _ := path.Match(pattern, branch) // the pattern was checked
	return ok
}
