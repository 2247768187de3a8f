package protocol

// SpawnerName is the first argument by which the binary knows that it starts the
// first processes of a template's branches.
const SpawnerName = "forkcell-spawner"

// Mapped is the parent's first message: the users and groups of the process's
// namespace are mapped, so that it can make files.
type Mapped struct {
	// Template means that the cell can be branched. The control socket of its
	// spawner comes along.
	Template bool
	// Runtime means that the cell's command brings a kernel for what it runs: see
	// Guard.Runtime.
	Runtime bool
}

// JoinOrder are the namespaces that a process joins to be in a cell, in this order.
func JoinOrder() []string { return []string{"user", "mnt", "net", "ipc", "uts", "cgroup", "pid"} }

// Spawner is the parent's first message to a spawner.
type Spawner struct{ ID Identity }

// SpawnOrder starts a first process, whose control socket comes along; or it detaches
// the mounts at these paths of the template.
type SpawnOrder struct{ Detach [][]byte }

// Spawned answers the first message, and each order: with a descriptor of the
// process, or with why there is none.
type Spawned struct{ Problem string }

// Text is a message whose whole body is text: what is said to a warm process, which
// need not be this program.
type Text []byte

func (t *Text) fields(w *wire) {
	if !w.reading {
		w.b = append(w.b, *t...)
		return
	}
	*t, w.b = w.b, nil
}

func (m *Mapped) fields(w *wire) {
	flag(w, &m.Template)
	flag(w, &m.Runtime)
}

func (s *Spawner) fields(w *wire) { s.ID.fields(w) }

func (o *SpawnOrder) fields(w *wire) { texts(w, &o.Detach) }

func (s *Spawned) fields(w *wire) { text(w, &s.Problem) }
