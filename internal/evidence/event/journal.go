package event

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"syscall"
	"time"
)

// File is the file of a journal; *os.File implements it. The caller opens it
// for reading and writing, and closes it.
type File interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
	Sync() error
}

// Meta is the part that all events of a run share.
type Meta struct {
	// Cell is the cell's name, CellID its id.
	Cell, CellID string
	Run          string
	// Policy is the hash of the policy in force; see Journal.SetPolicy.
	Policy string
	// Version is forkcell's own.
	Version string
}

// Options bound a journal. The zero value has the defaults.
type Options struct {
	// MaxBytes bounds the size of the file. Default 64 MiB; at least 1 MiB.
	MaxBytes int64
	// Window is the time within which a repetition of an event is only counted.
	// Default one second; negative: never.
	Window time.Duration
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

const (
	defaultMaxBytes = 64 << 20
	leastMaxBytes   = 1 << 20
	defaultWindow   = time.Second
	// maxRepeats bounds how many different events are remembered.
	maxRepeats = 256
	// reserve is the space for the records that a full journal still accepts:
	// the end of the run, and the last record, which counts what was dropped.
	reserve = 4 * maxLine
)

// errSealed is returned by a journal that accepts no more events.
var errSealed = errors.New("event journal is sealed")

// Journal is the append-only record of one run. Lifecycle: Create or Recover,
// any number of Append from any goroutine, Seal.
//
// Append passes every record to the kernel before it returns, so that no record
// is lost when this process is killed; only Seal makes them durable against a
// power failure. Repetitions of an event are written when their window has
// ended.
type Journal struct {
	mu   sync.Mutex
	file File
	meta Meta
	opt  Options
	st   *state
	// repeats are events that were written less than a window ago.
	repeats map[string]*repeat
	// due is at or before the end of the first window.
	due     time.Time
	dropped dropped
	// lost counts events that were not written because the disk was full.
	lost   dropped
	sealed bool
	crowd  crowd
	// scratch is the buffer for keys.
	scratch []byte
	// broken is the first failed write; nothing can follow it.
	broken error
}

// repeat counts the repetitions of one event.
type repeat struct {
	rec         record
	written     time.Time
	count       uint64
	first, last int64
	// traffic is the sum of all repetitions.
	traffic traffic
}

// add counts one more.
func (p *repeat) add(r *record) {
	if p.count == 0 {
		p.first = r.Time
		p.rec.Duration = r.Duration
	}
	p.count, p.last = p.count+max(r.Count, 1), r.Time
	if r.Traffic != nil {
		p.traffic.BytesIn += r.Traffic.BytesIn
		p.traffic.BytesOut += r.Traffic.BytesOut
	}
}

// record returns one record for all repetitions.
func (p *repeat) record() record {
	r := p.rec
	r.Time = p.last
	if r.Traffic != nil {
		r.Traffic = &p.traffic
	}
	if p.count > 1 {
		r.Count, r.StartTime, r.EndTime = p.count, p.first, p.last
		if r.Duration != nil {
			// The schema defines it as the time between the two.
			all := p.last - p.first
			r.Duration = &all
		}
	}
	return r
}

func (o Options) withDefaults() Options {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	o.MaxBytes = max(o.MaxBytes, leastMaxBytes)
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func newJournal(f File, m Meta, opt Options) *Journal {
	return &Journal{file: f, meta: m, opt: opt.withDefaults(), st: newState(), repeats: map[string]*repeat{}}
}

// Create starts a journal in an empty file.
func Create(f File, m Meta, opt Options) (*Journal, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("event: create journal: %w", err)
	}
	if size != 0 {
		return nil, fmt.Errorf("event: create journal: the file has %d bytes already", size)
	}
	return newJournal(f, m, opt), nil
}

// SetPolicy changes the policy hash for the following events, and returns the
// sequence number from which it applies.
func (j *Journal) SetPolicy(hash string) (from uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return 0, err
	}
	// Pending repetitions happened under the previous policy.
	if err := j.flush(time.Time{}); err != nil {
		return 0, err
	}
	j.meta.Policy = hash
	return j.st.sum.Records + 1, nil
}

// Append writes an event, or counts it as a repetition. An error means that the
// event is not in the journal. After a failed write the journal accepts no more
// events, and the record of the run is incomplete.
func (j *Journal) Append(e Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	now := j.opt.Now()
	r := *e.rec
	if r.Time == 0 {
		r.Time = now.UnixMilli()
	}
	if r.Policy == nil && j.meta.Policy != "" {
		r.Policy = &entity{UID: short(j.meta.Policy)}
	}
	if err := j.flush(now); err != nil {
		return err
	}
	if j.opt.Window < 0 {
		return j.put(&r)
	}
	key := j.key(&r)
	if j.repeats[string(key)] == nil && !j.crowd.admit(&r, now) {
		r = combinedDenial(&r)
		key = j.key(&r)
	}
	if p := j.repeats[string(key)]; p != nil {
		p.add(&r)
		return nil
	}
	if len(j.repeats) == maxRepeats {
		// There are too many different events: forget them all.
		if err := j.flush(time.Time{}); err != nil {
			return err
		}
	}
	j.repeats[string(key)] = &repeat{rec: r, written: now}
	return j.put(&r)
}

// key returns a key that is equal for events that differ only in time, duration
// and traffic. It is valid until the next call.
func (j *Journal) key(r *record) []byte {
	same := *r
	same.Time, same.Duration, same.Traffic = 0, nil, nil
	j.scratch = appendKey(j.scratch[:0], reflect.ValueOf(&same).Elem())
	return j.scratch
}

// Flush writes pending repetitions.
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	return j.flush(time.Time{})
}

func (j *Journal) usable() error {
	if j.sealed {
		return errSealed
	}
	return j.broken
}

// flush forgets the events whose window has ended at now, and writes their
// repetitions, the earliest first. The zero time means all.
func (j *Journal) flush(now time.Time) error {
	if !now.IsZero() && now.Before(j.due) {
		return nil
	}
	var due []*repeat
	j.due = time.Time{}
	for key, p := range j.repeats {
		end := p.written.Add(j.opt.Window)
		if !now.IsZero() && now.Before(end) {
			if j.due.IsZero() || end.Before(j.due) {
				j.due = end
			}
			continue
		}
		delete(j.repeats, key)
		if p.count > 0 {
			due = append(due, p)
		}
	}
	sortRepeats(due)
	for _, p := range due {
		r := p.record()
		if err := j.put(&r); err != nil {
			return err
		}
	}
	return nil
}

// put writes a record, or counts it if the journal is full.
func (j *Journal) put(r *record) error {
	limit := j.opt.MaxBytes - reserve
	if r.ClassUID == AppLifecycle {
		limit = j.opt.MaxBytes - 2*maxLine
	}
	line, rec, err := j.finish(r)
	if err != nil {
		return err
	}
	if j.dropped != (dropped{}) && r.ClassUID != AppLifecycle || j.st.sum.Bytes+int64(len(line)) > limit {
		j.dropped.add(rec)
		return nil
	}
	return j.write(line, rec)
}

// add counts an event that is not written.
func (d *dropped) add(rec Record) {
	if rec.Action == ActionDenied {
		d.Denied += rec.Count
	} else {
		d.Allowed += rec.Count
	}
}

// finish sets the sequence and chain of a record, and writes it.
func (j *Journal) finish(r *record) ([]byte, Record, error) {
	seq := j.st.sum.Records + 1
	r.Metadata = metadata{
		Version:        schemaVersion,
		Product:        product{Name: "forkcell", VendorName: "Forkcell", Version: short(j.meta.Version)},
		Profiles:       []string{"host", "security_control"},
		UID:            text(fmt.Sprintf("%s:%d", short(j.meta.Run), seq)),
		CorrelationUID: short(j.meta.Run),
		Sequence:       seq,
	}
	r.Message = r.sentence()
	r.Device = device{TypeID: 6, Type: "Virtual", Name: short(j.meta.Cell), UID: short(j.meta.CellID)}
	if r.Unmapped.Cell == "" {
		r.Unmapped.Cell = short(j.meta.Cell)
	}
	r.Unmapped.Run, r.Unmapped.Prev = short(j.meta.Run), j.st.head.String()
	line, err := r.encode(make([]byte, 0, 2048))
	if err != nil {
		return nil, Record{}, err
	}
	if len(line) > maxLine {
		return nil, Record{}, fmt.Errorf("event: a record of %d bytes", len(line))
	}
	rec := Record{
		Sequence: seq, Class: r.ClassUID, Action: ActionAllowed, Count: max(r.Count, 1),
		Raw: line[:len(line)-1], prev: r.Unmapped.Prev,
	}
	if r.ActionID == 2 {
		rec.Action = ActionDenied
	}
	if r.Unmapped.Executed {
		rec.executed = r.Process.CmdLine.plain()
	}
	if r.Unmapped.Dropped != nil {
		rec.dropped = *r.Unmapped.Dropped
	}
	return line, rec, nil
}

// write passes a line to the kernel. It removes the remains of a failed write.
func (j *Journal) write(line []byte, rec Record) error {
	if _, err := j.file.Write(line); err != nil {
		_, serr := j.file.Seek(j.st.sum.Bytes, io.SeekStart)
		if cut := errors.Join(j.file.Truncate(j.st.sum.Bytes), serr); cut != nil {
			j.broken = errors.Join(fmt.Errorf("event: write journal: %w", err), fmt.Errorf("event: cut journal: %w", cut))
			return j.broken
		}
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			j.lost.add(rec) // there may be room for the next one
			return nil
		}
		j.broken = fmt.Errorf("event: write journal: %w", err)
		return j.broken
	}
	j.st.add(rec)
	return nil
}

// Sync makes the records so far durable and returns their totals. The journal takes
// more events afterwards.
func (j *Journal) Sync() (Summary, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return Summary{}, err
	}
	if err := j.flush(time.Time{}); err != nil {
		return Summary{}, err
	}
	if err := j.file.Sync(); err != nil {
		return Summary{}, fmt.Errorf("event: sync journal: %w", err)
	}
	return Summary{Records: j.st.sum.Records, Head: j.st.sum.Head, Bytes: j.st.sum.Bytes}, nil
}

// Size returns the size of the file.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.st.sum.Bytes
}

// Seal writes pending repetitions and, in a full journal, the record of what
// was dropped. It makes the file durable and returns the totals. The journal
// then accepts no more events, even if Seal fails; a second Seal returns
// errSealed.
func (j *Journal) Seal() (Summary, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sealed {
		return j.st.sum, errSealed
	}
	j.sealed = true
	if j.broken != nil {
		return j.st.sum, j.broken
	}
	if err := j.flush(time.Time{}); err != nil {
		return j.st.sum, err
	}
	if err := j.putDropped(); err != nil {
		return j.st.sum, err
	}
	if n := j.lost.Allowed + j.lost.Denied; n > 0 {
		// Even the record about the dropped events could not be written: it
		// counts as one.
		j.st.sum.Dropped[ActionAllowed] += j.dropped.Allowed
		j.st.sum.Dropped[ActionDenied] += j.dropped.Denied
	}
	if err := j.file.Sync(); err != nil {
		return j.st.sum, fmt.Errorf("event: sync journal: %w", err)
	}
	return j.st.sum, nil
}

func (j *Journal) putDropped() error {
	j.dropped.Allowed += j.lost.Allowed
	j.dropped.Denied += j.lost.Denied
	j.lost = dropped{}
	if j.dropped == (dropped{}) {
		return nil
	}
	n := j.dropped.Allowed + j.dropped.Denied
	e := Found(Subject{Time: j.opt.Now(), Severity: Medium, Policy: j.meta.Policy}, Finding{
		ID:     "events_dropped",
		Title:  fmt.Sprintf("events dropped: %d", n),
		Detail: "the journal of this run, or its disk, was full; these events were counted and not written",
	})
	e.rec.Unmapped.Dropped = &j.dropped
	line, rec, err := j.finish(e.rec)
	if err != nil {
		return err
	}
	return j.write(line, rec)
}
