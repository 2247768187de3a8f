package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// maxKey bounds an idempotency key.
const maxKey = 255

// maxKept bounds the body of an answer that is kept. Larger ones are documents of
// runs, and are made again from the run.
const maxKept = 4 << 20

// requestKeeper records requests with an idempotency key.
type requestKeeper interface {
	BeginRequest(ctx context.Context, k engine.KeyedRequest) (q store.Request, known bool, err error)
	AnswerRequest(ctx context.Context, id string, answer []byte) error
	ForgetRequest(ctx context.Context, id string) error
	RenewRun(ctx context.Context, q *store.Request) error
	RequestEffects(ctx context.Context, id string) ([]api.LogEntry, error)
	Settle(ctx context.Context, cell string) error
}

// inFlight are the requests with a key that are being carried out or repeated. Each has
// a name.
type inFlight struct {
	mu   sync.Mutex
	done map[string]chan struct{}
}

// begin adds a request, when no other one has its name. end removes it.
func (f *inFlight) begin(ctx context.Context, name string) (end func(), err error) {
	for {
		end, busy := f.add(name)
		if busy == nil {
			return end, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// add adds a request. If there is one already, busy is closed when it ends.
func (f *inFlight) add(name string) (end func(), busy <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if done, ok := f.done[name]; ok {
		return nil, done
	}
	if f.done == nil {
		f.done = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	f.done[name] = done
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.done, name)
		close(done)
	}, nil
}

// keptAnswer is an answer as it is kept for a repeated request.
type keptAnswer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body,omitempty"`
	// Secret reports that the body is not kept.
	Secret bool `json:"secret,omitempty"`
	// Dropped reports that the answer is not kept any more.
	Dropped bool `json:"dropped,omitempty"`
}

// isKeyed reports whether a request has a key of the daemon. One to a port is the
// listener's.
func isKeyed(r *http.Request) bool {
	_, isPort := portTargetOf(r)
	return r.Method == http.MethodPost && r.Header.Values("Idempotency-Key") != nil && !isPort && !isSite(r)
}

// carryOutOnce carries out a POST with an idempotency key, and answers its repetitions.
func (s *Server) carryOutOnce(w http.ResponseWriter, r *http.Request, c *call) {
	key := strings.Join(r.Header.Values("Idempotency-Key"), " ") // several are malformed
	content, err := s.keyedContent(w, r, key, c.caller.rights())
	if err != nil {
		writeProblem(w, s.problemOf(c, err))
		return
	}
	requests := s.actFor(c, nil, nil)
	k := engine.KeyedRequest{
		Caller: c.caller.name, Route: r.Method + " " + r.URL.Path, Key: key, Content: content, Run: isRunPath(r.URL.Path),
	}
	q, known, end, err := s.claim(r.Context(), requests, k)
	if err != nil {
		writeProblem(w, s.problemOf(c, err)) // it is lost if the caller is gone
		return
	}
	defer end()
	if known {
		s.repeat(w, r, c, requests, q)
		return
	}
	s.carryOut(w, r, c, requests, q)
}

// claim waits until no other caller works on a request, and records it unless it is known.
// end must be called when it is answered.
func (s *Server) claim(ctx context.Context, requests requestKeeper, k engine.KeyedRequest) (q store.Request, known bool, end func(), err error) {
	end, err = s.keyed.begin(ctx, strings.Join([]string{k.Caller, k.Route, k.Key}, "\x00"))
	if err != nil {
		return q, false, nil, err
	}
	if q, known, err = requests.BeginRequest(ctx, k); err != nil {
		end()
	}
	return q, known, end, err
}

// keyedContent checks a key, and returns everything that the request says, and the rights
// that it is sent with: who has other rights does not get the answer, whatever its name.
func (s *Server) keyedContent(w http.ResponseWriter, r *http.Request, key, rights string) ([]byte, error) {
	if key == "" || len(key) > maxKey || strings.IndexFunc(key, func(r rune) bool { return r < 0x21 || r > 0x7e }) >= 0 {
		return nil, api.Usagef("use up to 255 printable characters without spaces", "malformed Idempotency-Key")
	}
	if r.URL.Path == op.Upload.Path {
		return nil, api.Usagef("send it again without: an upload that no cell uses expires", "an upload takes no Idempotency-Key")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		err = &api.Error{Kind: api.Usage, Code: api.CodeTooLarge, Message: "the body is too large", Hint: "a request with a key has at most 8 MiB"}
	}
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return append([]byte(r.URL.RawQuery+"\n"+r.Header.Get("If-Match")+"\n"+rights+"\n"), body...), nil
}

func isRunPath(path string) bool {
	return strings.HasPrefix(path, "/v1/cells/") && strings.HasSuffix(path, "/runs")
}

// carryOut carries a request out, also if its caller goes away, but not once its token has
// ended. It keeps the answer if the request can have had an effect.
func (s *Server) carryOut(w http.ResponseWriter, r *http.Request, c *call, requests requestKeeper, q store.Request) {
	c.request = q
	ctx := context.WithoutCancel(r.Context())
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.work, cancel)()
	defer context.AfterFunc(c.valid, cancel)()
	rec := &recorder{ResponseWriter: w, status: http.StatusOK, secret: r.URL.Path == "/v1/tokens"}
	s.dispatch(rec, r.WithContext(work))
	var err error
	if rec.status >= 300 || c.reads {
		err = requests.ForgetRequest(ctx, q.ID)
	} else {
		var text []byte
		if text, err = json.Marshal(rec.answerToKeep()); err == nil {
			err = requests.AnswerRequest(ctx, q.ID, text)
		}
	}
	if err != nil {
		s.logger.Error("keep the answer of a request with a key", "request", c.id, "error", err)
	}
}

// repeat answers a request that was carried out before.
func (s *Server) repeat(w http.ResponseWriter, r *http.Request, c *call, requests requestKeeper, q store.Request) {
	var kept keptAnswer
	if len(q.Answer) > 0 {
		if err := json.Unmarshal(q.Answer, &kept); err != nil {
			writeProblem(w, s.problemOf(c, err))
			return
		}
	}
	switch {
	case kept.Secret:
		writeProblem(w, s.problemOf(c, api.Refusef(api.CodeAlreadyCreated, "its answer was shown once", "the request was carried out before")))
	case kept.Dropped && q.RunID == "":
		writeProblem(w, s.problemOf(c, api.Refusef(api.CodeAlreadyCreated, "its answer gave way to newer ones", "the request was carried out before")))
	case kept.Body != nil || kept.Status == http.StatusNoContent:
		for name, value := range kept.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(kept.Status)
		_, _ = w.Write(kept.Body)
	case q.RunID != "":
		s.repeatRun(w, r, c, requests, q)
	default:
		s.repeatCut(w, r, c, requests, q)
	}
}

// repeatRun answers with a run whose answer was a stream, came at its beginning, or
// was cut off.
func (s *Server) repeatRun(w http.ResponseWriter, r *http.Request, c *call, requests requestKeeper, q store.Request) {
	info, err := s.settledRun(r.Context(), s.actFor(c, nil, nil), q.RunID)
	if err != nil && api.KindOf(err) == api.NotFound {
		// The daemon died before the command was executed.
		if err = requests.RenewRun(r.Context(), &q); err == nil {
			s.carryOut(w, r, c, requests, q)
			return
		}
	}
	if err != nil {
		writeProblem(w, s.problemOf(c, err))
		return
	}
	if info.State == "running" {
		w.Header().Set("Location", "/v1/runs/"+q.RunID)
		writeDocument(w, http.StatusAccepted, api.RunStarted{RunID: q.RunID, State: "running"})
		return
	}
	writeDocument(w, http.StatusOK, info)
}

// settledRun describes a run. One that a dead daemon left is finished or undone
// first.
func (s *Server) settledRun(ctx context.Context, engine Engine, id string) (*api.RunInfo, error) {
	info, err := engine.RunInfo(ctx, id)
	if err == nil {
		err = s.waitUntilFree(ctx, *info)
	}
	if err != nil || info.State != "running" || s.jobs.has(id) {
		return info, err
	}
	if err := engine.Settle(ctx, info.Cell); err != nil {
		return nil, err
	}
	return engine.RunInfo(ctx, id)
}

// repeatCut answers a request that a dead daemon had begun. What it did is known
// from the statements; if it did nothing, it is carried out now.
func (s *Server) repeatCut(w http.ResponseWriter, r *http.Request, c *call, requests requestKeeper, q store.Request) {
	effects, err := requests.RequestEffects(r.Context(), q.ID)
	switch {
	case err != nil:
		writeProblem(w, s.problemOf(c, err))
	case len(effects) > 0:
		writeDocument(w, http.StatusOK, api.Repeated{Statements: effects})
	case strings.HasSuffix(r.URL.Path, "/exec"), strings.HasSuffix(r.URL.Path, "/eval"), strings.HasSuffix(r.URL.Path, "/send"):
		// A command, code or a message in a live cell leaves no statement.
		writeProblem(w, s.problemOf(c, api.Refusef(api.CodeInterrupted, "look at the cell", "the daemon ended while the command ran")))
	default:
		s.carryOut(w, r, c, requests, q)
	}
}

// recorder keeps an answer while it is written.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	over   bool
	secret bool // the answer shows a secret
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.body.Len()+len(p) > maxKept {
		r.over = true
	} else {
		r.body.Write(p)
	}
	// The request goes on if its caller has gone.
	_, _ = r.ResponseWriter.Write(p)
	return len(p), nil
}

// Unwrap lets http.ResponseController find the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// answerToKeep returns what is kept of the answer. A stream, the beginning of a run and a
// large answer are made again from the run.
func (r *recorder) answerToKeep() keptAnswer {
	k := keptAnswer{Status: r.status, Header: map[string]string{}}
	for _, name := range []string{"Content-Type", "Location", "ETag"} {
		if value := r.Header().Get(name); value != "" {
			k.Header[name] = value
		}
	}
	stream := strings.HasPrefix(r.Header().Get("Content-Type"), eventsType)
	k.Secret = r.secret
	if !r.secret && !r.over && !stream && r.status != http.StatusAccepted {
		k.Body = append([]byte{}, r.body.Bytes()...)
	}
	return k
}
