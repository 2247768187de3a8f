package receipt

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"pgregory.net/rapid"
)

// Any text survives signing, and a bundle carries exact bytes.
func TestAnyTextSurvives(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	text := rapid.String()
	rapid.Check(t, func(rt *rapid.T) {
		r := testRun(1)
		l.place(r, "cell_1", rapid.StringN(1, -1, -1).Draw(rt, "cell"))
		r.Actor, r.Error, r.Workdir = text.Draw(rt, "actor"), text.Draw(rt, "error"), text.Draw(rt, "workdir")
		r.Command = rapid.SliceOfN(text, 1, 5).Draw(rt, "command")
		r.Timings = rapid.MapOfN(text, rapid.Int64(), 1, 5).Draw(rt, "timings")
		r.ExitCode = rapid.Int().Draw(rt, "exit code")
		raw, err := l.signer.Sign(r)
		if err != nil {
			rt.Fatal(err)
		}
		report, err := (Bundle{Receipt: raw}).Verify(trusted(1))
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(r, report.Run); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// Bytes that are no text are replaced, never an error: a run must get its receipt.
func TestNotUTF8(t *testing.T) {
	t.Parallel()
	l, r := newTestLog(t), testRun(1)
	r.Command = []string{"cat", "a\xffb"}
	s, err := Verify(l.add(r), trusted(1))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Predicate.(*Run).Command[1]; got != "a\ufffdb" {
		t.Errorf("got %q", got)
	}
}

// The steps that docs/formats/receipt.md gives for openssl.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	raw := newTestLog(t).add(testRun(1))
	e, err := ParseEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Signatures []struct{ Sig []byte } }
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"key.pem": MarshalPublic(testSigner(1).Public()), "pae": dsse.PAE(PayloadType, e.Payload), "sig": doc.Signatures[0].Sig,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), openssl, "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin", "-in", "pae", "-sigfile", "sig")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
