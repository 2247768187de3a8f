package event

import (
	"fmt"
	"net/http"
	"time"
)

// Call is a request to the API of a daemon.
type Call struct {
	// ID is the request's.
	ID string
	// Method is that of HTTP, and Route the pattern that took the request: no part of
	// a path that a caller chose.
	Method, Route string
	// Caller is the name of the sender, "" if it is not known; From its address.
	Caller, From string
	// Cell is the cell that the request names, or "".
	Cell   string
	Status int
	Took   time.Duration
	// Count is how many requests of one peer the event stands for, if more than one;
	// the first of them was at First. The other fields are those of the last one.
	Count uint64
	First time.Time
}

// API returns an event about a request to the daemon (class 6003).
func API(s Subject, c Call) Event {
	if c.Status >= http.StatusBadRequest {
		s.Verdict = Denied
	}
	s.Message = fmt.Sprintf("%s %s: %d", c.Method, c.Route, c.Status)
	if c.Caller != "" {
		s.Message += ", by " + c.Caller
	}
	id, name := apiActivity(c.Method)
	r := newRecord(APIActivity, s, id, name)
	took := c.Took.Milliseconds()
	r.Duration = &took
	r.Actor = &actor{User: &entity{Name: short(c.Caller)}}
	r.API = &apiCall{Operation: short(c.Method + " " + c.Route), Request: apiRequest{UID: short(c.ID)}, Response: apiResponse{Code: c.Status}}
	r.SrcEndpoint = &endpoint{IP: short(c.From)}
	r.Unmapped.Cell = short(c.Cell)
	if c.Count > 1 {
		between := max(0, s.Time.Sub(c.First).Milliseconds())
		r.Count, r.StartTime, r.EndTime = c.Count, c.First.UnixMilli(), s.Time.UnixMilli()
		r.Duration = &between
	}
	return Event{r}
}

// apiActivity returns OCSF's number and name of a method.
func apiActivity(method string) (int, string) {
	switch method {
	case http.MethodPost:
		return 1, "Create"
	case http.MethodGet, http.MethodHead:
		return 2, "Read"
	case http.MethodPut, http.MethodPatch:
		return 3, "Update"
	case http.MethodDelete:
		return 4, "Delete"
	}
	return 99, "Other"
}
