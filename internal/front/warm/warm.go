// Package warm has the requests for templates of interpreters that Forkcell knows.
//
// It knows which program makes an interpreter warm. It knows nothing of cells, flags
// and HTTP.
package warm

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"path"
	"regexp"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/sdk/python"
)

// usualPython is the interpreter of a request that names none.
const usualPython = "python3"

// beginning is the program of a warm interpreter, after the line that sets _source.
//
//go:embed python.py
var beginning string

var moduleName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\pL_][\pL\pN_]*(\.[\pL_][\pL\pN_]*)*$`)
})

// IsModule reports whether a text is the name of a Python module.
func IsModule(name string) bool { return moduleName().MatchString(name) }

// Python returns the request for a warm Python interpreter that starts in workdir, or
// with "" in the workspace. mountAt returns the path of the workspace in the cell.
//
// The interpreter reads its program from its input: every user can see arguments,
// and recorded.
func Python(p api.WarmPython, workdir string, mountAt func() (string, error)) (*api.WarmRequest, error) {
	for _, name := range p.Modules {
		if !IsModule(name) {
			return nil, api.Usagef("name them as in an import, such as os.path", "%s is not the name of a module", quote.Arg(name))
		}
	}
	if p.Script != "" && workdir != "" && !path.IsAbs(p.Script) {
		workspace, err := mountAt()
		if err != nil {
			return nil, err
		}
		p.Script = path.Join(workspace, p.Script)
	}
	options, err := json.Marshal(struct {
		Modules []string `json:"import"`
		Script  string   `json:"script"`
	}{append([]string{}, p.Modules...), p.Script})
	if err != nil {
		return nil, err
	}
	source, err := json.Marshal(python.Warm) // Python reads it as a string, too
	if err != nil {
		return nil, err
	}
	return &api.WarmRequest{
		Args: []string{cmp.Or(p.Program, usualPython), "-", string(options)}, Input: api.Text("_source = " + string(source) + "\n" + beginning),
	}, nil
}
