package protocol

import "time"

// Guest is what a process is told first that executes commands under another kernel
// than the host's.
type Guest struct {
	ID Identity
	// OpenFiles is the limit for each process, or 0.
	OpenFiles int64
}

// GuestProcesses lists what runs under such a kernel.
type GuestProcesses struct{ List []GuestProcess }

// GuestProcess is one process.
type GuestProcess struct {
	PID, PPID, SID, UID int
	State               string
	// Age is the time since it was started, CPU the processor time used.
	Age, CPU time.Duration
	RSS      int64
	Args     [][]byte
}

func (g *Guest) fields(w *wire) {
	g.ID.fields(w)
	number(w, &g.OpenFiles)
}

func (p *GuestProcesses) fields(w *wire) {
	list(w, &p.List, func(w *wire, g *GuestProcess) {
		number(w, &g.PID)
		number(w, &g.PPID)
		number(w, &g.SID)
		number(w, &g.UID)
		text(w, &g.State)
		age, cpu := int64(g.Age), int64(g.CPU)
		number(w, &age)
		number(w, &cpu)
		g.Age, g.CPU = time.Duration(age), time.Duration(cpu)
		number(w, &g.RSS)
		texts(w, &g.Args)
	})
}

// Encode returns a message as bytes, for a connection that carries no descriptors.
func Encode(m message) []byte { return encode(m) }

// Decode reads what Encode returned. The sender may be hostile.
func Decode(b []byte, m message) error { return decode(b, m) }
