package rest

import (
	"context"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// metrics counts and measures what the daemon does. Every label has values from a
// fixed list: routes are patterns, never paths.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	steps    *prometheus.HistogramVec
	runs     *prometheus.CounterVec
	events   *prometheus.CounterVec
	cells    *prometheus.GaugeVec
	denied   prometheus.Counter
}

// newMetrics makes the metrics of a daemon. running returns the number of runs that it
// carries out, pool the number of first processes that are ready, and of those that
// are kept ready.
func newMetrics(running func() int, pool func() (ready, size int)) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "forkcell_api_request_seconds", Help: "Time from a request to the end of its answer, by route.",
			Buckets: []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100},
		}, []string{"method", "route", "status"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "forkcell_run_step_seconds", Help: "Time of the steps of runs.",
			Buckets: []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100},
		}, []string{"step"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forkcell_runs_total", Help: "Runs that have ended, by outcome.",
		}, []string{"outcome"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forkcell_run_events_total", Help: "Events of runs that have ended, by what was decided.",
		}, []string{"action"}),
		cells: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "forkcell_cells", Help: "Cells, by state.",
		}, []string{"state"}),
		denied: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "forkcell_egress_denied_total", Help: "Connections, requests and questions for names that runs were denied.",
		}),
	}
	m.registry.MustRegister(m.requests, m.steps, m.runs, m.events, m.cells, m.denied, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forkcell_runs_now", Help: "Runs that the daemon carries out now.",
		}, func() float64 { return float64(running()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forkcell_pool_ready", Help: "First processes of cells that wait, each with its namespaces.",
		}, func() float64 { ready, _ := pool(); return float64(ready) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forkcell_pool_size", Help: "First processes of cells that are kept ready.",
		}, func() float64 { _, size := pool(); return float64(size) }))
	return m
}

// request measures a request that was answered.
func (m *metrics) request(c event.Call) {
	status := strconv.Itoa(c.Status/100) + "xx"
	m.requests.WithLabelValues(c.Method, c.Route, status).Observe(c.Took.Seconds())
}

// run measures a run that has ended. res may be nil.
func (m *metrics) run(res *api.RunResult) {
	if res == nil {
		return
	}
	for _, s := range runSteps(res.Timings) {
		m.steps.WithLabelValues(s.name).Observe(s.took.Seconds())
	}
	m.steps.WithLabelValues("total").Observe(float64(res.Timings.TotalUS) / 1e6)
	m.runs.WithLabelValues(res.Outcome).Inc()
	m.denied.Add(float64(res.Denied.Attempts))
	for action, n := range res.Events {
		m.events.WithLabelValues(action).Add(float64(n))
	}
}

// addMetrics adds the route that Prometheus reads.
func (s *Server) addMetrics() {
	handler := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})
	handleExchange(s, op.Metrics, streamResponse(map[string]string{"text/plain": "Prometheus' text format."}), func(ctx context.Context, x *exchange, _ *struct{}) {
		if err := s.countCells(ctx, x.engine); err != nil {
			x.fail(err)
			return
		}
		handler.ServeHTTP(x.w, x.r)
	})
}

// countCells counts the cells in each state.
func (s *Server) countCells(ctx context.Context, e cellKeeper) error {
	cells, err := e.List(ctx)
	if err != nil {
		return err
	}
	count := map[string]int{"idle": 0, "running": 0, "live": 0, "paused": 0}
	for _, c := range cells {
		count[c.State]++
	}
	for state, n := range count {
		s.metrics.cells.WithLabelValues(state).Set(float64(n))
	}
	return nil
}
