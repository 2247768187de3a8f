package rest

import (
	"context"
	"net/http"
	"runtime"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/race"
	"github.com/forkcell/forkcell/internal/engine/token"
)

// racer begins races.
type racer interface {
	BeginRace(ctx context.Context, o engine.RaceOptions) (*engine.Race, error)
}

type raceInput struct {
	IfMatch
	Accept string `header:"Accept" doc:"text/event-stream streams what happens, and the result."`
	Body   api.RaceBody
}

// addRace adds the route of races. Its answer is the result at the end, or a stream
// of events.
func (s *Server) addRace() {
	def := operationOf(op.Race)
	def.Responses = map[string]*huma.Response{"200": {Description: "The race has ended.", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[api.RaceResult](s.api.OpenAPI().Components.Schemas)},
		eventsType:         eventMedia("attempt", "judged", "result", "problem"),
	}}}
	register(s, def, func(ctx context.Context, c *call, in *raceInput) (*huma.StreamResponse, error) {
		req, engine, err := s.raceRequest(ctx, c, in)
		if err != nil {
			return nil, err
		}
		release, err := s.acquire(ctx, c, shareQuota(c, &req))
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			defer release()
			_, w := humago.Unwrap(hctx)
			if strings.Contains(in.Accept, eventsType) {
				s.streaming(c, w, func() { s.streamRace(ctx, c, engine, req, w) })
				return
			}
			res, err := race.Run(ctx, engine, req, func(api.RaceEvent) {})
			if err != nil {
				writeProblem(w, s.problemOf(c, err))
				return
			}
			writeDocument(w, http.StatusOK, res)
		}}, nil
	})
}

// raceRequest checks a body. It returns the engine that acts under the ceiling, and with
// the credentials, of the request.
func (s *Server) raceRequest(ctx context.Context, c *call, in *raceInput) (req api.RaceRequest, m measuredEngine, err error) {
	if req, err = s.raceOf(c, in.Body); err != nil {
		return req, m, err
	}
	set, err := s.runSettings(ctx, c, in.Body.RunSettings)
	if err != nil {
		return req, m, err
	}
	req.RunOptions = set.options
	expect, err := expectation(in.Match)
	return req, measuredEngine{Engine: s.actFor(c, nil, set.env), server: s, call: c, expect: expect}, err
}

// raceOf checks what a body says about the attempts.
func (s *Server) raceOf(c *call, b api.RaceBody) (api.RaceRequest, error) {
	req := api.RaceRequest{
		Cell: b.Cell, Warm: b.Warm, Command: b.Command, Code: api.Text(b.Code), N: b.N, Jobs: b.Jobs, Judge: b.Judge, Best: b.Best, Accept: b.Accept, Apply: b.Apply, Keep: b.Keep,
	}
	if err := c.visible(b.Cell); err != nil {
		return req, err
	}
	for _, a := range b.Attempts {
		env, err := environment(a.Env)
		if err != nil {
			return req, err
		}
		req.Attempts = append(req.Attempts, api.RaceCommand{Command: a.Command, Env: env, Code: api.Text(a.Code)})
	}
	if req.Jobs == 0 {
		req.Jobs = s.jobsOf(c)
	}
	return req, nil
}

// shareQuota gives each attempt that runs at once its part of the caller's quotas of
// memory and processors, as its limits unless those are narrower, and returns what all of them use together. The
// branches of a warm race exist all at once, beside the judges; they count as live cells
// when they are made.
func shareQuota(c *call, req *api.RaceRequest) token.Amount {
	atOnce := int64(race.AtOnce(*req))
	parts := atOnce
	if req.Warm {
		parts += int64(max(req.N, len(req.Attempts)))
	}
	if !c.caller.local {
		whole := token.Whole(c.caller.grant.Quota)
		req.Memory, req.CPUs = narrower(req.Memory, whole.Memory/parts), narrower(req.CPUs, whole.CPUs/parts)
	}
	return token.Amount{Runs: atOnce, Memory: req.Memory * atOnce, CPUs: req.CPUs * atOnce}
}

// jobsOf returns how many attempts of a race run at once if the request does not say:
// one for each processor, and no more than the quotas allow.
func (s *Server) jobsOf(c *call) int {
	jobs := runtime.GOMAXPROCS(0)
	for _, most := range []int{s.config.MaxRuns, int(c.caller.grant.Quota.Runs)} {
		if most > 0 {
			jobs = min(jobs, most)
		}
	}
	return jobs
}

// streamRace answers with what happens in a race. A race that is refused before its
// forks exist is answered with a problem.
func (s *Server) streamRace(ctx context.Context, c *call, engine measuredEngine, req api.RaceRequest, w http.ResponseWriter) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events *eventStream
	stop := func() {}
	defer func() { stop() }()
	res, err := race.Run(ctx, engine, req, func(e api.RaceEvent) {
		if events == nil {
			events = newEventStream(w)
			stop = events.beat()
		}
		if e.Kind != api.RaceAttempted && e.Kind != api.RaceJudged {
			return
		}
		if err := events.send(string(e.Kind), e.Attempt); err != nil {
			cancel()
		}
	})
	if events == nil {
		writeProblem(w, s.problemOf(c, err))
		return
	}
	// Who reads no further than the result learns of a failure first.
	if err != nil {
		_ = events.send("problem", s.problemOf(c, err).Problem)
	}
	_ = events.send(string(api.RaceEnded), res)
}
