package daemon

import (
	"context"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/trace"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/otlp"
)

// startTraces makes the daemon's spans, if its environment names a collector of them.
// end sends the last ones. Without a collector spans is nil, and no connection is made.
func startTraces(ctx context.Context, log *slog.Logger) (spans trace.TracerProvider, end func(), err error) {
	config, on, err := otlp.FromEnvironment(os.Getenv)
	if err != nil {
		return nil, nil, api.Usagef("change or unset the variable", "%v", err)
	}
	if !on {
		return nil, func() {}, nil
	}
	exporter, err := otlp.Start(context.WithoutCancel(ctx), config, "forkcell", local.Version(), log)
	if err != nil {
		return nil, nil, api.Usagef("see the variables that begin with OTEL_", "start traces: %v", err)
	}
	return exporter.Provider(), exporter.Close, nil
}
