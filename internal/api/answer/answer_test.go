package answer

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

var update = flag.Bool("update", false, "write the tables of the SDKs")

type inner struct {
	Cell string   `json:"cell"`
	Runs []string `json:"run_ids"`
}

type outer struct {
	inner
	Path   string            `json:"path"`
	Labels map[string]string `json:"labels"`
	Items  []*inner          `json:"items"`
	ByID   map[string]inner  `json:"by_id"`
	Any    any               `json:"any"`
	Raw    json.RawMessage   `json:"raw"`
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{}`:                                   true,
		`{"cell":"demo-1.x","path":"--to=/a"}`: true,
		`{"items":[null,{"run_ids":["run_01k9"]}],"labels":{"cell":"\u001b[2J"}}`: true,
		`{"raw":{"cell":"--to=/a"}}`: true,
		`{"cell":"--to=/a"}`:         false,
		`{"cell":"a/b"}`:             false,
		`{"cell":"a\n"}`:             false,
		`{"run_ids":["run_1","run_1\u001b]52;c;eA==\u0007"]}`: false,
		`{"items":[{"cell":"a"},{"cell":"\u202ea"}]}`:         false,
		`{"by_id":{"x":{"cell":"A"}}}`:                        false,
		`{"any":[{"x":1}]}`:                                   true,
	} {
		doc := new(outer)
		if err := json.Unmarshal([]byte(text), doc); err != nil {
			t.Fatal(err)
		}
		if err := Check(doc); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := Check(nil); err != nil {
		t.Error(err)
	}
}

func TestGrammars(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 5000)
	for grammar, accepted := range map[string][]string{
		name: {"a", "0a", "a.b_c-d"},
		id:   {"run_01k9x", "chk_0"},
		word: {"sha256:ab", "1"},
		line: {"ada lovelace", "ä", "日本", "a-b", "\U0001f600"},
	} {
		for _, text := range accepted {
			if !matches(grammar, text) {
				t.Errorf("%s: %q is refused", grammar, text)
			}
		}
		for _, text := range []string{"--to=/a", "a\x1b[1m", "a\u202eb", "a\nb", "a\u009b1m", "a\n", "\u2028", long} {
			if matches(grammar, text) {
				t.Errorf("%s: %q is accepted", grammar, text)
			}
		}
	}
}

// texts are the fields of answers that hold any text: who prints them quotes them.
var texts = strings.Fields(`
	allow_control
	acknowledged added decided ran why already also also_decided answer area args assurance_falls assurance_reasons
	backend_reason capabilities command commands degraded detail details directory document endpoints env_names
	error file from grants hidden hint holder how idle_timeout ignored instructions judge kept
	kept_by_git kernel key landlock left limits masked memory message missing missing_credentials
	mount_api mount_at namespaces needs network next next_step note notes old_path output packages path
	path_base64 problem program public_key_pem reaches read_only reason remedy removed rule seccomp
	selection_reason set_aside show shown socket sockets source sources split_links ssh_notes stderr
	stderr_base64 stdout stdout_base64 summary target target_base64 tested title to traceback ttl
	turns_taken type undecided unmapped_ids user value what without_effect workdir workspace
`)

// TestEveryFieldIsDecided: a text of an answer has a grammar, or it is one that may be
// anything.
func TestEveryFieldIsDecided(t *testing.T) {
	t.Parallel()
	all := responseTexts(t)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		free, bound := slices.Contains(texts, field), fields()[field] != ""
		if free == bound {
			t.Errorf("%s of %v: give it a grammar in grammar.go, or name it as free text in this test, not both", field, all[field])
		}
	}
	for _, field := range texts {
		if all[field] == nil {
			t.Errorf("no answer has the text %s", field)
		}
	}
}

// responseTexts returns the fields of answers that are texts, or lists of texts, with the
// schemas that have them.
func responseTexts(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]any
		}
		Components struct {
			Schemas   map[string]map[string]any
			Responses map[string]any
		}
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var todo []string
	reference := regexp.MustCompile(`#/components/schemas/(\w+)`)
	refer := func(in any) {
		for _, m := range reference.FindAllStringSubmatch(fmt.Sprint(in), -1) {
			todo = append(todo, m[1])
		}
	}
	refer(doc.Components.Responses)
	for _, path := range doc.Paths {
		for _, operation := range path {
			refer(operation.Responses)
		}
	}
	all, seen := map[string][]string{}, map[string]bool{}
	for len(todo) > 0 {
		schema := todo[0]
		if todo = todo[1:]; seen[schema] {
			continue
		}
		seen[schema] = true
		refer(doc.Components.Schemas[schema])
		properties, _ := doc.Components.Schemas[schema]["properties"].(map[string]any)
		for field, of := range properties {
			if isText(of) {
				all[field] = append(all[field], schema)
			}
		}
	}
	return all
}

// isText reports whether a property is a text or a list of texts.
func isText(property any) bool {
	p, _ := property.(map[string]any)
	kind := fmt.Sprint(p["type"])
	if strings.Contains(kind, "array") {
		return isText(p["items"])
	}
	return strings.Contains(kind, "string") && p["format"] == nil
}

// TestTablesOfSDKs compares the tables of the SDKs with this one.
func TestTablesOfSDKs(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"../../../sdk/python/src/forkcell/_grammar.py": tableOfPython(),
		"../../../sdk/typescript/src/grammar.ts":       tableOfTypeScript(),
	} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(got), want); diff != "" {
			t.Errorf("%s differs; go test ./internal/api/answer -run TestTables -update writes it:\n%s", file, diff)
		}
	}
}

const written = " Written by go test ./internal/api/answer -run TestTables -update.\n"

func tableOfPython() string {
	var b strings.Builder
	b.WriteString(`"""The grammars of the names and ids in answers.` + written + `"""` + "\n\nimport re\n\nGRAMMARS = {\n")
	for _, grammar := range slices.Sorted(maps.Keys(grammars)) {
		fmt.Fprintf(&b, "    %q: re.compile(r\"%s\"),\n", grammar, escapes(`\U%08x`, `\u%04x`, grammars[grammar]))
	}
	b.WriteString("}\n\nFIELDS = {\n")
	for _, field := range slices.Sorted(maps.Keys(fields())) {
		fmt.Fprintf(&b, "    %q: %q,\n", field, fields()[field])
	}
	b.WriteString("}\n")
	return b.String()
}

func tableOfTypeScript() string {
	var b strings.Builder
	b.WriteString("// The grammars of the names and ids in answers." + written + "\nexport const grammars = {\n")
	for _, grammar := range slices.Sorted(maps.Keys(grammars)) {
		fmt.Fprintf(&b, "  %s: /^(?:%s)$/u,\n", grammar, escapes(`\u{%x}`, `\u{%x}`, grammars[grammar]))
	}
	b.WriteString("};\n\nexport const grammarOf: ReadonlyMap<string, keyof typeof grammars> = new Map([\n")
	for _, field := range slices.Sorted(maps.Keys(fields())) {
		fmt.Fprintf(&b, "  [%q, %q],\n", field, fields()[field])
	}
	b.WriteString("]);\n")
	return b.String()
}

// escapes writes the characters of an expression in another language's form.
func escapes(long, short, expression string) string {
	return regexp.MustCompile(`\\x\{([0-9a-f]+)\}`).ReplaceAllStringFunc(expression, func(s string) string {
		var r rune
		if _, err := fmt.Sscanf(s, `\x{%x}`, &r); err != nil {
			panic(err)
		}
		if r > 0xffff {
			return fmt.Sprintf(long, r)
		}
		return fmt.Sprintf(short, r)
	})
}
