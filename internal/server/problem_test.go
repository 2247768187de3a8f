package server

import (
	"bytes"
	"context"
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
