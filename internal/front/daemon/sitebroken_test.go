package daemon_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/receipt"
)

// spoil puts other contents in the place of a stored blob, or removes it.
func (d *testDaemon) spoil(digest, content string) {
	d.Helper()
	name := filepath.Join(d.home, "blobs/sha256", digest[:2], digest)
	err := os.Remove(name)
	if err == nil && content != "" {
		err = os.WriteFile(name, []byte(content), 0o600)
	}
	if err != nil {
		d.Fatal(err)
	}
}

// TestSiteChangedPolicy: pages name a stored policy that was altered, and show
// everything else.
func TestSiteChangedPolicy(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	d.want(http.StatusOK, nil, "PUT", "/v1/cells/demo/policy", api.ValidateBody{Policy: "offline"})
	run := d.ran("demo", "echo written > new")
	var info api.RunInfo
	d.want(http.StatusOK, &info, "GET", "/v1/runs/"+run, nil)
	r := newReviewer(d)
	ofRun := "/ui/runs/" + run
	r.get(http.StatusOK, ofRun)
	r.has(ofRun+"/policy", "written")
	r.lacks("unreadable")
	r.get(http.StatusOK, ofRun+"/policy")
	r.has(info.PolicyHash, "version: 1")

	for _, c := range []struct{ content, says string }{{"version: 1\n", "was changed"}, {"", "is missing"}} {
		d.spoil(info.PolicyHash, c.content)
		for _, at := range []string{ofRun, "/ui/cells/demo", "/ui/cells/demo/policy"} {
			r.get(http.StatusOK, at)
			r.has("the stored policy " + info.PolicyHash + " " + c.says)
		}
		r.get(http.StatusOK, ofRun)
		r.has("unreadable", "written")
		r.get(http.StatusBadRequest, ofRun+"/policy")
		r.has(c.says)
	}
}

// TestSiteChangedOutput: output that cannot be read is not taken for no output.
func TestSiteChangedOutput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo written; echo failed >&2")
	digest := receipt.Hash([]byte("written\n"))
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/runs/"+run)
	r.has("written", "stdout, 8 B")
	for _, content := range []string{"another\n", ""} {
		d.spoil(digest, content)
		for _, at := range []string{"/ui/runs/" + run, "/ui/runs/" + run + "/output"} {
			r.get(http.StatusOK, at)
			r.has(digest)
			r.lacks("has written nothing")
		}
	}
	r.get(http.StatusOK, "/ui/runs/"+run)
	r.has("stderr, 7 B")
}

// TestSiteFreed: pages about a run whose files were freed say so, and do not take it for
// one that changed nothing.
func TestSiteFreed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "echo x > new")
	d.want(http.StatusOK, nil, "POST", "/v1/cells/demo/restore", api.RestoreRequest{})
	kept := d.ran("demo", "echo y > other")
	r := newReviewer(d)
	history := "/ui/cells/demo/history?path="
	r.get(http.StatusOK, history+"new")
	r.has("/ui/runs/" + run)
	r.lacks("cannot be compared")
	d.want(http.StatusOK, nil, "POST", "/v1/gc", api.GCBody{OlderThan: "0s"})
	r.get(http.StatusOK, history+"new")
	r.has("No change found", "Some runs cannot be compared.", "1 run cannot be compared: ")
	r.lacks("No run changed it", "/ui/runs/"+run)
	r.get(http.StatusOK, history+"other")
	r.has("/ui/runs/"+kept, "1 run cannot be compared: ")
	r.get(http.StatusOK, "/ui/runs/"+run)
	r.has("cannot be shown")
	r.lacks("No file changed")
	r.get(http.StatusOK, "/ui/cells/demo")
	r.has("files freed")
}

// TestSiteChangedReceipt: the page of a receipt that was altered says so at once.
func TestSiteChangedReceipt(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", "true")
	files, err := filepath.Glob(filepath.Join(d.home, "log", "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	r := newReviewer(d)
	r.get(http.StatusOK, "/ui/runs/"+run+"/receipt")
	r.has("The signature holds.", "What was signed")
	for _, name := range files {
		if err := errors.Join(os.Chmod(name, 0o600), os.WriteFile(name, []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{"/receipt", "/receipt?verify=yes"} {
		r.get(http.StatusOK, "/ui/runs/"+run+at)
		r.has("It does not hold.")
		r.lacks("The signature holds.")
	}
}
