package rest

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/text/document"
)

const (
	// bodyTimeout is how long a body may pause, and a reader may take for a part of a
	// stream.
	bodyTimeout = 30 * time.Second
	// heartbeat is the time between two comments in a stream without events.
	heartbeat = 15 * time.Second
)

// eventsType is the media type of server-sent events.
const eventsType = "text/event-stream"

// eventMedia describes a stream of server-sent events by one of them.
func eventMedia(names ...string) *huma.MediaType {
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	kind := text("What happened.")
	for _, name := range names {
		kind.Enum = append(kind.Enum, name)
	}
	return &huma.MediaType{Schema: &huma.Schema{
		Type: huma.TypeObject, Description: "One event of the stream.",
		Properties: map[string]*huma.Schema{"event": kind, "data": text("A document, in JSON."), "id": text("Where the stream can be continued.")},
	}}
}

// eventStream writes server-sent events. It is safe for concurrent use.
type eventStream struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	rc   *http.ResponseController
	fail error
}

// newEventStream begins the answer.
func newEventStream(w http.ResponseWriter) *eventStream {
	w.Header().Set("Content-Type", eventsType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w: w, rc: http.NewResponseController(w)}
	s.comment()
	return s
}

// send writes one event. After the first failure nothing more is written.
func (s *eventStream) send(event string, doc any) error {
	var b bytes.Buffer
	b.WriteString("event: " + event + "\n")
	b.WriteString("data: ")
	if err := document.Write(&b, doc); err != nil {
		return err
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

// comment writes a line that readers ignore, to find out whether they are there.
func (s *eventStream) comment() { _ = s.write([]byte(":\n\n")) }

func (s *eventStream) write(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	// A writer without deadlines is a test's.
	_ = s.rc.SetWriteDeadline(time.Now().Add(bodyTimeout))
	if _, s.fail = s.w.Write(p); s.fail == nil {
		s.fail = s.rc.Flush()
	}
	return s.fail
}

// errStreamEnded is the failure of events that come when the request is over.
var errStreamEnded = errors.New("the stream has ended")

// beat sends comments until the returned function is called. When that returns, nothing
// is written any more: the request may end, and its writer with it.
func (s *eventStream) beat() (stop func()) {
	ticker, done, ended := time.NewTicker(heartbeat), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				s.comment()
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fail = cmp.Or(s.fail, errStreamEnded)
	}
}

// streamPart is one stream of a command, written as events. gone, if set, is called
// when the reader has gone.
type streamPart struct {
	events *eventStream
	name   string
	gone   func()
}

type streamData struct {
	Data []byte `json:"data"`
}

func (p streamPart) Write(data []byte) (int, error) {
	if err := p.events.send(p.name, streamData{data}); err != nil && p.gone != nil {
		p.gone()
	}
	return len(data), nil
}
