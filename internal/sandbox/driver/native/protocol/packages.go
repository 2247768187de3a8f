package protocol

// PackageCall is a command's request to the first process: a package
// manager by its name, with arguments. The three standard streams come along.
type PackageCall struct {
	Args, Env [][]byte
	Workdir   []byte
}

// PackageEnd answers a PackageCall: with the wait status of the package manager, or why
// it was not executed.
type PackageEnd struct {
	Status  uint32
	Problem string
}

// Answer is what the parent says to a report that a package manager was asked for: it
// may be executed, or why not.
type Answer struct {
	ID      int
	Problem string
}

func (c *PackageCall) fields(w *wire) {
	texts(w, &c.Args)
	texts(w, &c.Env)
	text(w, &c.Workdir)
}

func (e *PackageEnd) fields(w *wire) {
	number(w, &e.Status)
	text(w, &e.Problem)
}

func (a *Answer) fields(w *wire) {
	number(w, &a.ID)
	text(w, &a.Problem)
}
