package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
)

// TestCodesAreAppendOnly compares the table with the file of codes that were
// released. A new code is added at the end of both.
func TestCodesAreAppendOnly(t *testing.T) {
	t.Parallel()
	released, err := os.ReadFile("testdata/codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, c := range api.Codes() {
		if slices.Contains(codes, string(c.Code)) || c.Meaning == "" {
			t.Errorf("code %s twice, or without a meaning", c.Code)
		}
		codes = append(codes, string(c.Code))
	}
	if diff := cmp.Diff(strings.Fields(string(released)), codes); diff != "" {
		t.Error(diff)
	}
}

// TestEveryCodeIsInTheTable reads the constants of codes.go.
func TestEveryCodeIsInTheTable(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			constants += len(v.Names)
		}
		return true
	})
	if constants != len(api.Codes()) {
		t.Errorf("%d constants, %d codes in the table", constants, len(api.Codes()))
	}
}

// TestRequestsSurviveJSON sends text that is not UTF-8.
func TestRequestsSurviveJSON(t *testing.T) {
	t.Parallel()
	in := api.RunRequest{
		Cell: "demo", Args: []string{"sh", "-c", "\xff"}, TTY: true, Size: api.WindowSize{Rows: 2, Cols: 3},
		RunOptions: api.RunOptions{Env: []string{"A=\xfe", "B=ü"}, Workdir: "/\xff", Wait: -1, CPUs: 1500},
	}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out api.RunRequest
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"workdir":3}`, `{"workdir":{"base64":"?"}}`, `{"env":[{}`, `{"env":{}}`} {
		if err := json.Unmarshal([]byte(bad), &out); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("plain")
	f.Add("\xff{\"base64\"")
	f.Fuzz(func(t *testing.T, text string) {
		data, err := json.Marshal(api.Texts{text})
		if err != nil {
			t.Fatal(err)
		}
		var again api.Texts
		if err := json.Unmarshal(data, &again); err != nil || len(again) != 1 || again[0] != text {
			t.Fatalf("%q came back as %q, %v", text, again, err)
		}
	})
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("no space")
	err := fmt.Errorf("around: %w", api.Failf(api.CodeSeal, cause, "seal %s", "x"))
	if api.KindOf(err) != api.Failed || !errors.Is(err, cause) || err.Error() != "around: seal x: no space" {
		t.Errorf("%v", err)
	}
	if api.KindOf(cause) != api.Failed || api.KindOf(api.Missing("cell", "x", "")) != api.NotFound {
		t.Error("wrong kind")
	}
	hinted := api.WithHint(api.Refusef(api.CodeGrant, "a", "b"), api.CodeGrant, "c")
	if e, ok := errors.AsType[*api.Error](hinted); !ok || e.Hint != "c" {
		t.Errorf("%+v", hinted)
	}
	if err := api.WithHint(cause, api.CodeGrant, "c"); !errors.Is(err, cause) {
		t.Error(err)
	}
}

// TestOutputText: a cut in the middle of a character makes no bytes of a text.
func TestOutputText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kept string
		cut  bool
		text string
		data string
	}{
		{"aé", false, "aé", ""},
		{"a\xc3", false, "", "a\xc3"},
		{"a\xc3", true, "a", ""},
		{"a\xf0\x9f\x98", true, "a", ""},
		{"a\xff", true, "", "a\xff"},
		{"\xff\xc3", true, "", "\xff\xc3"},
		{"", true, "", ""},
	} {
		if text, data := api.OutputText([]byte(c.kept), c.cut); text != c.text || string(data) != c.data {
			t.Errorf("%q, %v: %q %q", c.kept, c.cut, text, data)
		}
	}
}
