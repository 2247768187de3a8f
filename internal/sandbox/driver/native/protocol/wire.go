package protocol

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"
)

// message is one message on the control socket. Its fields are named once, for
// both directions.
type message interface {
	fields(w *wire)
}

// wire writes the fields of a message, or reads them, in their order: numbers as
// varints, bytes after their length. Both ends are the same program, so nothing
// tells versions apart. JSON took a tenth of the time that it takes to build a
// cell, most of it to learn the types in both processes.
type wire struct {
	b       []byte
	reading bool
	err     error
}

var errWire = errors.New("malformed message")

func encode(m message) []byte {
	w := &wire{}
	m.fields(w)
	return w.b
}

// decode reads a message. The sender may be hostile.
func decode(b []byte, m message) error {
	w := &wire{b: b, reading: true}
	m.fields(w)
	if w.err == nil && len(w.b) > 0 {
		w.err = errWire
	}
	return w.err
}

// fail ends reading: everything that follows is zero.
func (w *wire) fail() { w.b, w.err = nil, errWire }

// number is one of any type.
func number[T ~int | ~int64 | ~uint16 | ~uint32](w *wire, p *T) {
	if !w.reading {
		w.b = binary.AppendVarint(w.b, int64(*p))
		return
	}
	v, n := binary.Varint(w.b)
	if n <= 0 || int64(T(v)) != v {
		*p = 0
		w.fail()
		return
	}
	*p, w.b = T(v), w.b[n:]
}

func flag(w *wire, p *bool) {
	v := 0
	if *p {
		v = 1
	}
	number(w, &v)
	if w.reading { // others may read a message that is being written
		*p = v == 1
	}
}

// text is a string or bytes; empty bytes are read as nil.
func text[T ~string | ~[]byte](w *wire, p *T) {
	n := len(*p)
	number(w, &n)
	switch {
	case !w.reading:
		w.b = append(w.b, *p...)
	case n < 0 || n > len(w.b):
		w.fail()
	case n > 0:
		*p, w.b = T(append([]byte(nil), w.b[:n]...)), w.b[n:]
	}
}

// list is a slice of anything; an empty one is read as nil.
func list[T any](w *wire, p *[]T, each func(*wire, *T)) {
	n := len(*p)
	number(w, &n)
	if w.reading {
		// Every element takes a byte at least.
		if n < 0 || n > len(w.b) {
			w.fail()
			return
		}
		*p = nil
		if n > 0 {
			*p = make([]T, n)
		}
	}
	for i := range *p {
		each(w, &(*p)[i])
	}
}

func texts[T ~string | ~[]byte](w *wire, p *[]T) { list(w, p, text[T]) }

func (p *Plan) fields(w *wire) {
	text(w, &p.Hostname)
	p.ID.fields(w)
	flag(w, &p.Legacy)
	list(w, &p.Binds, func(w *wire, b *Bind) {
		text(w, &b.Target)
		text(w, &b.Source)
		number(w, &b.FD)
		flag(w, &b.ReadOnly)
		flag(w, &b.Dead)
	})
	list(w, &p.Overlays, func(w *wire, o *Overlay) {
		text(w, &o.Target)
		number(w, &o.FD)
		texts(w, &o.Lower)
		text(w, &o.Upper)
		text(w, &o.Work)
	})
	texts(w, &p.Pins)
	list(w, &p.Masks, func(w *wire, m *Mask) {
		text(w, &m.Target)
		flag(w, &m.Dir)
	})
	texts(w, &p.Fixed)
	texts(w, &p.Absent)
	texts(w, &p.System)
	flag(w, &p.OwnSystem)
	text(w, &p.Root)
	number(w, &p.RootFD)
	flag(w, &p.Follow)
	p.Guard.fields(w)
	flag(w, &p.Capture)
	list(w, &p.Files, func(w *wire, f *File) {
		text(w, &f.Name)
		number(w, &f.Offset)
		number(w, &f.Size)
	})
	number(w, &p.FilesFD)
	text(w, &p.Socket)
	flag(w, &p.Packages)
	p.Without.fields(w)
	p.examine(w)
	flag(w, &p.Notice)
	flag(w, &p.StepTimes)
	text(w, &p.Probe)
}

func (m *ParentMounts) fields(w *wire) {
	number(w, &m.Root)
	list(w, &m.Binds, number[int])
	list(w, &m.Overlays, number[int])
}

func (id *Identity) fields(w *wire) {
	flag(w, &id.Root)
	number(w, &id.UID)
	number(w, &id.GID)
	flag(w, &id.Super)
	text(w, &id.FullName)
}

func (g *Guard) fields(w *wire) {
	texts(w, &g.AllowSyscalls)
	flag(w, &g.BestEffort)
	flag(w, &g.Notify)
	flag(w, &g.Connects)
	flag(w, &g.Attempts)
	number(w, &g.OpenFiles)
	number(w, &g.Processes)
	flag(w, &g.Limited)
	flag(w, &g.Live)
	flag(w, &g.Template)
	flag(w, &g.Join)
	flag(w, &g.Runtime)
	texts(w, &g.Writable)
}

// examine is what only throw-away cells have.
func (p *Plan) examine(w *wire) {
	there := p.Examine != nil
	if flag(w, &there); !there {
		return
	}
	if w.reading {
		p.Examine = &Examination{Host: map[string]string{}}
	}
	names := slices.Sorted(maps.Keys(p.Examine.Host))
	list(w, &names, func(w *wire, name *string) {
		text(w, name)
		value := p.Examine.Host[*name]
		text(w, &value)
		p.Examine.Host[*name] = value
	})
	text(w, &p.Examine.Socket)
}

func (o *Order) fields(w *wire) {
	there := o.Exec != nil
	if flag(w, &there); there {
		if w.reading {
			o.Exec = &ExecOrder{}
		}
		o.Exec.fields(w)
	}
	there = o.Open != nil
	if flag(w, &there); there {
		if w.reading {
			o.Open = &OpenOrder{}
		}
		number(w, &o.Open.ID)
		text(w, &o.Open.Path)
	}
	number(w, &o.Signal)
	number(w, &o.To)
	there = o.Answer != nil
	if flag(w, &there); there {
		if w.reading {
			o.Answer = &Answer{}
		}
		o.Answer.fields(w)
	}
}

func (o *ExecOrder) fields(w *wire) {
	number(w, &o.ID)
	texts(w, &o.Args)
	texts(w, &o.Env)
	text(w, &o.Workdir)
	flag(w, &o.TTY)
	number(w, &o.Rows)
	number(w, &o.Cols)
	flag(w, &o.Stdin)
	flag(w, &o.Last)
	flag(w, &o.Warm)
}

func (r *Report) fields(w *wire) {
	text(w, &r.Kind)
	number(w, &r.Exec)
	text(w, &r.MountAPI)
	texts(w, &r.Degraded)
	text(w, &r.Landlock)
	text(w, &r.Seccomp)
	list(w, &r.Examined, func(w *wire, f *Finding) {
		text(w, &f.Name)
		text(w, &f.Problem)
	})
	list(w, &r.StepTimes, func(w *wire, l *StepTime) {
		text(w, &l.Step)
		took := int64(l.Took)
		number(w, &took)
		l.Took = time.Duration(took)
	})
	number(w, &r.Captured)
	flag(w, &r.Join)
	flag(w, &r.Rules)
	number(w, &r.PID)
	text(w, &r.Step)
	number(w, &r.Errno)
	text(w, &r.Text)
	number(w, &r.Cause)
	number(w, &r.Status)
	number(w, &r.Took)
	texts(w, &r.Args)
	number(w, &r.Refused)
}
