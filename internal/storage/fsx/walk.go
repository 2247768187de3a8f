package fsx

import "context"

// keptOpen is how many unused directories a walk leaves open.
const keptOpen = 32

// Visitor is called for everything below a directory.
type Visitor struct {
	// Enter is called for each name, in order; of a directory before what is in
	// it. For a directory it reports whether to visit its contents.
	Enter func(at *Step) (bool, error)
	// Leave, if set, is called for a directory after what is in it.
	Leave func(at *Step) error
	// Gone, if set, reports whether an error only means that something cannot
	// be looked at, because it has just gone away: it is passed over.
	Gone func(error) bool
}

// Step is one name that a walk visits.
type Step struct {
	Name string
	Info Info
	// Up is the directory that the name is in. That of a name in the directory
	// that the walk began in has no name and no Info.
	Up *Step
	// Data belongs to the visitor.
	Data any
	ref  *Ref
	dir  *Dir
	left []string // of a directory: the names still to come
}

// Dir is the directory that the name is in. It is valid during the call.
func (s *Step) Dir() *Dir { return s.dir }

// Path is the path of the name beneath the directory that the walk began in.
func (s *Step) Path() string { return s.ref.Path() }

// Walk visits everything below d. It neither recurses nor holds a descriptor for
// each level, so that a tree of any depth can be visited.
func Walk(ctx context.Context, d *Dir, v Visitor) error {
	w := &walk{v: v, keeper: NewKeeper(keptOpen)}
	defer w.keeper.Close()
	root := &Step{ref: w.keeper.Root(d)}
	if err := w.descend(root); err != nil {
		return err
	}
	for len(w.stack) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		top := w.stack[len(w.stack)-1]
		var err error
		if len(top.left) == 0 {
			w.stack = w.stack[:len(w.stack)-1]
			err = w.ascend(top)
		} else {
			name := top.left[0]
			top.left = top.left[1:]
			err = w.name(top, name)
		}
		if err != nil && (v.Gone == nil || !v.Gone(err)) {
			return err
		}
	}
	return nil
}

type walk struct {
	v      Visitor
	keeper *Keeper
	stack  []*Step
}

// descend begins to visit what is in a directory.
func (w *walk) descend(s *Step) error {
	d, err := s.ref.Open()
	if err != nil {
		return err
	}
	defer s.ref.Release()
	if s.left, err = d.Names(); err != nil {
		return err
	}
	w.stack = append(w.stack, s)
	return nil
}

func (w *walk) ascend(s *Step) error {
	if s.ref.up == nil {
		return nil
	}
	s.ref.Close()
	if w.v.Leave == nil {
		return nil
	}
	var err error
	if s.dir, err = s.ref.up.Open(); err != nil {
		return err
	}
	defer s.ref.up.Release()
	return w.v.Leave(s)
}

func (w *walk) name(in *Step, name string) error {
	d, err := in.ref.Open()
	if err != nil {
		return err
	}
	defer in.ref.Release()
	s := &Step{Name: name, Up: in, ref: in.ref.Child(name), dir: d}
	if s.Info, err = d.Lstat(name); err != nil {
		return err
	}
	into, err := w.v.Enter(s)
	if err != nil || !into || !s.Info.IsDir() {
		return err
	}
	return w.descend(s)
}
