package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
)

// maxRaceLine bounds a line of the stream of a race.
const maxRaceLine = 16 << 20

// Race makes several attempts in forks of a cell. The end of the context ends it.
func (e *Engine) Race(ctx context.Context, r api.RaceRequest, events func(api.RaceEvent)) (*api.RaceResult, error) {
	body, err := raceBody(r)
	if err != nil {
		return nil, err
	}
	resp, err := e.send(ctx, http.MethodPost, "/v1/race", "text/event-stream", body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxRaceLine)
	kind := ""
	for lines.Scan() {
		key, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(key) {
		case "event":
			kind = string(value)
		case "data":
			res, err := raceEvent(kind, value, events)
			if res != nil || err != nil {
				return res, err
			}
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, failure(fmt.Errorf("the stream of the race ended: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF)))
}

// Choose accepts an attempt of a race that has ended. A refused apply does not change the
// decision.
func (e *Engine) Choose(ctx context.Context, r api.ChooseRequest) (*api.RaceResult, error) {
	here := r.Apply && !e.client.Local()
	res, err := told(e.client.Cells.Named(r.Cell).Choose(ctx, client.Choose{Attempt: r.Attempt, Reason: r.Reason, Force: r.Force, Apply: r.Apply && !here}))
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
		return &out, cell.AfterAccept(err, r.Cell)
	}
	return &out, nil
}

// raceEvent handles an event. The result ends the race.
func raceEvent(kind string, data []byte, events func(api.RaceEvent)) (*api.RaceResult, error) {
	switch api.RaceEventKind(kind) {
	case api.RaceAttempted, api.RaceJudged:
		ev := api.RaceEvent{Kind: api.RaceEventKind(kind)}
		if err := json.Unmarshal(data, &ev.Attempt); err != nil {
			return nil, malformed(err)
		}
		events(ev)
	case api.RaceEnded:
		res := new(api.RaceResult)
		if err := json.Unmarshal(data, res); err != nil {
			return nil, malformed(err)
		}
		events(api.RaceEvent{Kind: api.RaceEnded, Result: res})
		return res, nil
	case "problem":
		var p api.Problem
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, malformed(err)
		}
		return nil, reported(problem(&p))
	case api.RaceForked, api.RaceStarted, api.RaceJudging:
	}
	return nil, nil //nolint:nilnil // the race goes on
}

// raceBody returns a race as the API has it. Of the options of its runs that has only
// variables and the time limit.
func raceBody(r api.RaceRequest) (api.RaceBody, error) {
	body := api.RaceBody{
		Cell: r.Cell, Warm: r.Warm, Command: r.Command, Code: string(r.Code), N: r.N, Jobs: r.Jobs, Judge: r.Judge, Best: r.Best, Accept: r.Accept, Apply: r.Apply, Keep: r.Keep, Timeout: duration(r.Timeout),
	}
	rest := r.RunOptions
	rest.Env, rest.Timeout = nil, 0
	rest.Grants.ConfigFile, rest.Network.CredentialsFile = "", ""
	if !reflect.DeepEqual(rest, api.RunOptions{}) {
		return body, unsupported("forkcell policy apply CELL FILE gives the cell a policy", "race: of the options of runs a daemon takes --env and --timeout only")
	}
	env, err := variables(r.Env)
	if err != nil {
		return body, err
	}
	attempts := r.Attempts
	if env != nil && len(attempts) == 0 {
		for range r.N {
			attempts = append(attempts, api.RaceCommand{Command: r.Command, Code: r.Code})
		}
		body.Command, body.Code, body.N = nil, "", 0
	}
	for _, a := range attempts {
		own, err := variables(append(append([]string{}, r.Env...), a.Env...))
		if err != nil {
			return body, err
		}
		body.Attempts = append(body.Attempts, api.RaceAttemptBody{Command: a.Command, Env: own, Code: string(a.Code)})
	}
	return body, nil
}
