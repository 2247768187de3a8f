package engine_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestLeftOutSurvives: left-out files are safe in the source, whatever the cell
// deletes, and nothing of the cell replaces them.
func TestLeftOutSurvives(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		t := w.T
		secrets := []string{".env", "docs/.env.local", "keys/id_rsa", ".ssh/config", "deploy.pem", "app/.aws/credentials"}
		for _, name := range secrets {
			w.write(name, "secret of "+name)
		}
		w.write(".env.example", "EXAMPLE=1\n")
		made := w.init("demo", backend)
		listed := fmt.Sprint(made.LeftOut)
		for _, name := range secrets {
			if !strings.Contains(listed, strings.SplitN(name, "/config", 2)[0]) && !strings.Contains(listed, filepath.Dir(name)) {
				t.Errorf("%s is not listed: %s", name, listed)
			}
		}
		_, seen := w.sh("demo", "grep -rl 'secret of' . 2>/dev/null; cat .env.example")
		if seen != "EXAMPLE=1\n" {
			t.Fatalf("the cell sees %q", seen)
		}
		w.sh("demo", "rm -rf ./* ./.[a-z]* 2>/dev/null; true")
		res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Apply: true})
		w.ok(err)
		for _, name := range secrets {
			if got := w.read(name); got != "secret of "+name {
				t.Fatalf("%s holds %q", name, got)
			}
		}
		for _, name := range []string{"hello.txt", "docs/a.md", ".env.example"} {
			if _, err := os.Lstat(filepath.Join(w.source, name)); !os.IsNotExist(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if backend == "delta" {
			// There the secrets are masked, and cannot be replaced at all.
			out, _ := w.sh("demo", "echo fake > .env")
			if out.Outcome != "failed" {
				t.Errorf("the covered file could be written")
			}
			w.sound("demo")
			return
		}
		if len(res.Applied.Kept) == 0 {
			t.Errorf("directories stayed, and that is not said: %+v", res.Applied)
		}
		w.sh("demo", "echo fake > .env; mkdir -p .ssh; echo fake > .ssh/config; echo fine > fine", acceptOnSuccess)
		for _, way := range []string{"fail", "theirs"} {
			_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", OnConflict: way, AllowControl: []string{"*"}})
			w.refused(err, api.Refused, "conflicts")
			e, _ := errors.AsType[*api.Error](err)
			if all := strings.Join(e.Details, "\n"); !strings.Contains(all, ".env: ") || !strings.Contains(all, ".ssh") {
				t.Errorf("the conflicts are %s", all)
			}
			if _, err := os.Lstat(filepath.Join(w.source, "fine")); !os.IsNotExist(err) {
				t.Errorf("something was written: %v", err)
			}
		}
		_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", OnConflict: "ours"})
		w.ok(err)
		if got := w.read(".env") + w.read("fine"); got != "secret of .envfine\n" {
			t.Fatalf("the source holds %q", got)
		}
		w.sound("demo")
	})
}

// TestSecretsAreNotStored: values of secret-looking variables and arguments are
// streamed to the caller, and are nowhere in the home.
func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	const inEnv, inArg, inScript = "env-5ecret-value-0001", "arg-5ecret-value-0002", "script-5ecret-value-0003"
	res, out := w.sh("demo", "echo $API_TOKEN >&2; printf '%s' \"$API_TOKEN$API_TOKEN\"; printf env-5ecret; printf -- '-value-0001'; export DB_PASSWORD="+inScript+"; exit 3",
		func(r *api.RunRequest) {
			r.Env = []string{"API_TOKEN=" + inEnv, "PLAIN=plain-value-0004"}
			r.Args = append(r.Args, "--password", inArg, "--api-key="+inArg)
		})
	if strings.Count(out, inEnv) != 4 {
		t.Fatalf("the caller got %q", out)
	}
	if res.Outcome != "failed" {
		t.Fatalf("got %+v", res)
	}
	stored, _, err := w.e.Logs(w.ctx, "demo", "")
	w.ok(err)
	kept, err := io.ReadAll(stored)
	w.ok(errors.Join(err, stored.Close()))
	if got := string(kept); got != strings.Repeat("[redacted:API_TOKEN]", 3) {
		t.Errorf("stored is %q", got)
	}
	doc, err := w.e.Receipt(w.ctx, res.ReceiptID, "", false)
	w.ok(err)
	for _, part := range []string{"[redacted]", "API_TOKEN", "--password"} {
		if !bytes.Contains(doc.JSON, []byte(part)) {
			t.Errorf("the receipt does not say %s", part)
		}
	}
	_, err = w.e.ReceiptExport(w.ctx, res.ReceiptID, filepath.Join(filepath.Dir(w.home), "bundle.json"))
	w.ok(err)
	for _, secret := range []string{inEnv, inArg, inScript} {
		nowhere(t, filepath.Dir(w.home), secret)
	}
	w.sound("demo")
}

// nowhere looks for bytes in every file, also in the signed payloads.
func nowhere(t *testing.T, dir, secret string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(append(data, payloads(data)...), []byte(secret)) {
			t.Errorf("%s holds %s", path, secret)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// payloads decodes every string of a JSON document that is base64.
func payloads(data []byte) []byte {
	var doc any
	if json.Unmarshal(data, &doc) != nil {
		return nil
	}
	var out []byte
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			if raw, err := base64.StdEncoding.DecodeString(v); err == nil && len(raw) > 16 {
				out = append(append(out, raw...), payloads(raw)...)
			}
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			for _, e := range v {
				visit(e)
			}
		}
	}
	visit(doc)
	return out
}
