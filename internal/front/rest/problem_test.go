package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestInterruptedIsNoFailure: what a caller has ended is no failure of the daemon.
func TestInterruptedIsNoFailure(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &Server{logger: slog.New(slog.NewTextHandler(&log, nil))}
	p := s.problemOf(&call{id: "req_1"}, fmt.Errorf("wait for the cell: %w", context.Canceled))
	if p.Status != http.StatusConflict || p.Code != api.CodeInterrupted || p.Detail != "interrupted" {
		t.Errorf("%+v", p.Problem)
	}
	if text := log.String(); !strings.Contains(text, "wait for the cell") || strings.Contains(text, "ERROR") {
		t.Errorf("log %q", text)
	}
}

// TestFailureIsLogged: the log has a failure of the daemon also if its caller is told: it
// may be gone.
func TestFailureIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &Server{logger: slog.New(slog.NewTextHandler(&log, nil))}
	p := s.problemOf(&call{id: "req_1"}, api.Failf(api.CodeLogs, errors.New("no such file"), "keep the output of run_1"))
	if p.Status != http.StatusInternalServerError || !strings.Contains(log.String(), "keep the output of run_1: no such file") {
		t.Errorf("%+v, log %q", p.Problem, &log)
	}
	log.Reset()
	if p := s.problemOf(&call{}, api.Usagef("", "no command")); p.Status != http.StatusBadRequest || log.Len() > 0 {
		t.Errorf("%+v, log %q", p.Problem, &log)
	}
}
