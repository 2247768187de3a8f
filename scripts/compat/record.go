package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The machine reports on its own serial line, so that the kernel's messages
// cannot end up in the middle. A report is a sequence of records, one JSON object
// a line: hello, then begin, any number of output, and end for each job in the
// order of the plan, then bye. Anything else is no report.

const (
	kindHello  = "hello"
	kindBegin  = "begin"
	kindOutput = "output"
	kindEnd    = "end"
	kindBye    = "bye"
)

// record is one line of a report.
type record struct {
	Seq      int    `json:"seq"` // counts from 1, without gaps
	Kind     string `json:"kind"`
	Job      string `json:"job,omitempty"`      // begin, output, end
	Data     []byte `json:"data,omitempty"`     // output: what the job wrote
	Code     int    `json:"code,omitempty"`     // end: the exit code, -1 if there was none
	Millis   int64  `json:"millis,omitempty"`   // end: how long it took
	Error    string `json:"error,omitempty"`    // end: why there is no exit code; bye: what went wrong outside of jobs
	Kernel   string `json:"kernel,omitempty"`   // hello: the release of the kernel
	Landlock int    `json:"landlock,omitempty"` // hello: the ABI, 0 if there is none
	Jobs     int    `json:"jobs,omitempty"`     // bye: how many jobs ended
}

// maxLine bounds a record; the machine sends output in smaller pieces.
const maxLine = 64 << 10

// writer is the machine's end.
type writer struct {
	out io.Writer
	seq int
}

func (w *writer) write(r record) error {
	w.seq++
	r.Seq = w.seq
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(line, '\n'))
	return err
}

// readRecords hands every record of a report to take, and returns nil only if
// the report was complete and each record in its place.
func readRecords(in io.Reader, jobs []string, take func(record) error) error {
	lines := bufio.NewReaderSize(in, maxLine)
	o := order{jobs: jobs}
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil {
			return fmt.Errorf("after record %d, %s: %w", o.seq, o.where(), err)
		}
		r, err := parseRecord(line[:len(line)-1])
		if err == nil {
			err = o.next(r)
		}
		if err == nil {
			err = take(r)
		}
		if err != nil {
			return fmt.Errorf("after record %d, %s: %w", o.seq, o.where(), err)
		}
	}
	if !o.over {
		return fmt.Errorf("the report stops after record %d, %s", o.seq, o.where())
	}
	return nil
}

func parseRecord(line []byte) (record, error) {
	var r record
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("%.80q is no record: %w", line, err)
	}
	// One way to write it: no second value, field or spelling goes unseen.
	again, err := json.Marshal(r)
	if err != nil || !bytes.Equal(again, line) {
		return r, fmt.Errorf("%.80q is no record as the machine writes them", line)
	}
	return r, nil
}

// order is where in a report the reader is.
type order struct {
	jobs  []string
	seq   int
	ended int
	open  bool
	over  bool
}

func (o *order) next(r record) error {
	o.seq++
	if r.Seq != o.seq {
		return fmt.Errorf("it has the number %d", r.Seq)
	}
	inJob := []string{kindOutput, kindEnd}
	switch {
	case o.over:
		return errors.New("it comes after the end")
	case (o.seq == 1) != (r.Kind == kindHello):
		return fmt.Errorf("%s out of place", r.Kind)
	case r.Kind == kindHello:
		return nil
	case r.Kind == kindBye:
		if o.open || o.ended != len(o.jobs) || r.Jobs != o.ended {
			return fmt.Errorf("%s out of place: %s", r.Kind, o.where())
		}
		o.over = true
		return nil
	case o.open != slices.Contains(inJob, r.Kind), !o.open && r.Kind != kindBegin:
		return fmt.Errorf("%q out of place: %s", r.Kind, o.where())
	case o.ended == len(o.jobs) || r.Job != o.jobs[o.ended]:
		return fmt.Errorf("job %q out of place: %s", r.Job, o.where())
	}
	switch r.Kind {
	case kindBegin:
		o.open = true
	case kindEnd:
		o.open = false
		o.ended++
	}
	return nil
}

func (o *order) where() string {
	switch {
	case o.seq <= 1 && o.ended == 0 && !o.open:
		return "before the first job"
	case o.open:
		return "in the job " + o.jobs[o.ended]
	}
	return fmt.Sprintf("after %d of %d jobs", o.ended, len(o.jobs))
}
