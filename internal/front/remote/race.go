package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/api/sse"
	"github.com/forkcell/forkcell/internal/engine"
)

// Race makes several attempts in forks of a cell. The end of the context ends it. A
// refused apply does not change the decision.
func (e *Engine) Race(ctx context.Context, r api.RaceRequest, events func(api.RaceEvent)) (*api.RaceResult, error) {
	here := r.Apply && !e.client.Local()
	if here {
		r.Accept, r.Apply = true, false
	}
	body, err := e.raceBody(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := e.send(ctx, http.MethodPost, op.Race.Path, "text/event-stream", body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	res, err := readRace(ctx, resp.Body, events)
	if err != nil || !here || res.DecisionID == "" {
		return res, err
	}
	if res.Applied, err = e.applyHere(ctx, api.ApplyRequest{Cell: r.Cell, OnConflict: "fail"}); err != nil {
		return res, engine.AfterAccept(err, r.Cell)
	}
	return res, nil
}

// readRace reads the stream of a race. There can be a result and a problem, in any order.
func readRace(ctx context.Context, stream io.Reader, events func(api.RaceEvent)) (res *api.RaceResult, err error) {
	in := sse.NewReader(stream)
	m, end := in.Next()
	for ; end == nil; m, end = in.Next() {
		ended, problem := raceEvent(m, events)
		if problem != nil {
			err = problem
		}
		if ended != nil {
			res = ended
		}
	}
	switch {
	case err != nil:
		return res, err
	case ctx.Err() != nil:
		return res, ctx.Err()
	case res == nil || !errors.Is(end, io.EOF):
		return res, failure(fmt.Errorf("the stream of the race ended: %w", end))
	}
	return res, nil
}

// Choose accepts an attempt of a race that has ended. A refused apply does not change the
// decision.
func (e *Engine) Choose(ctx context.Context, r api.ChooseRequest) (*api.RaceResult, error) {
	here := r.Apply && !e.client.Local()
	there := r
	there.Apply = r.Apply && !here
	if r.Wait < 0 {
		there.Wait = api.Duration(forever)
	}
	res, err := asEngineError(e.client.Cells.Named(r.Cell).Choose(ctx, there))
	if err != nil {
		return nil, err
	}
	out := res.RaceResult
	for _, a := range res.Attempts {
		out.Attempts = append(out.Attempts, a.RaceAttempt)
	}
	if !here {
		return &out, nil
	}
	if out.Applied, err = e.applyHere(ctx, api.ApplyRequest{Cell: r.Cell, OnConflict: "fail"}); err != nil {
		return &out, engine.AfterAccept(err, r.Cell)
	}
	return &out, nil
}

// raceEvent handles an event. The result ends the race.
func raceEvent(m sse.Event, events func(api.RaceEvent)) (*api.RaceResult, error) {
	switch kind := api.RaceEventKind(m.Name); kind {
	case api.RaceAttempted, api.RaceJudged:
		ev := api.RaceEvent{Kind: kind}
		if err := decode(m.Data, &ev.Attempt); err != nil {
			return nil, err
		}
		events(ev)
	case api.RaceEnded:
		res := new(api.RaceResult)
		if err := decode(m.Data, res); err != nil {
			return nil, err
		}
		events(api.RaceEvent{Kind: api.RaceEnded, Result: res})
		return res, nil
	case "problem":
		var p api.Problem
		if err := decode(m.Data, &p); err != nil {
			return nil, err
		}
		return nil, reportedError(problem(&p))
	case api.RaceForked, api.RaceStarted, api.RaceJudging:
	}
	return nil, nil //nolint:nilnil // the race goes on
}

// raceBody returns a race as the API has it.
func (e *Engine) raceBody(ctx context.Context, r api.RaceRequest) (body api.RaceBody, err error) {
	body = api.RaceBody{
		Cell: r.Cell, Warm: r.Warm, Command: r.Command, Code: string(r.Code), N: r.N, Jobs: r.Jobs, Judge: r.Judge, Best: r.Best, Accept: r.Accept, Apply: r.Apply, Keep: r.Keep,
	}
	if body.RunSettings, err = e.settings(ctx, r.RunOptions); err != nil {
		return body, err
	}
	for _, a := range r.Attempts {
		own, err := variables(a.Env)
		if err != nil {
			return body, err
		}
		body.Attempts = append(body.Attempts, api.RaceAttemptBody{Command: a.Command, Env: own, Code: string(a.Code)})
	}
	return body, nil
}
