package drivertest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

var update = flag.Bool("update", false, "write the column of the driver in the table of runtimes")

// Table is the page that shows what each runtime does.
type Table struct {
	// File is the page, and Column the driver's name in it.
	File, Column string
}

// row is a line of the table: a claim or a control, and what it means.
type row struct{ name, means string }

func claimRows() []row {
	return []row{
		{string(Mounts), "the cell has file systems of its own"},
		{string(Absence), "paths that must not exist are absent, and cannot be made"},
		{string(Isolation), "processes see and reach nothing but the cell"},
		{string(Network), "each connection is judged by the policy"},
		{string(Programs), "rules can name the program that connects"},
		{string(Sockets), "the host answers at a socket in the cell"},
		{string(Limits), "the number of processes is limited"},
		{string(Reports), "denied system calls are events"},
		{string(Freezer), "a live cell can be frozen"},
		{string(Locks), "a lock of a shared file holds for the cell and the host"},
	}
}

func controlRows() []row {
	return []row{
		{string(control.Capabilities), "commands have no rights of root"},
		{string(control.CgroupNS), "the host's control groups are not seen"},
		{string(control.DeadSockets), "sockets of the host do not answer"},
		{string(control.Descriptors), "no open file of the caller is inherited"},
		{string(control.Detached), "the host's file systems are not mounted"},
		{string(control.Environment), "no variable of the caller is inherited"},
		{string(control.HiddenInit), "the first process cannot be looked into"},
		{string(control.IDs), "its users own nothing of the host"},
		{string(control.IPCNS), "shared memory and message queues are the cell's own"},
		{string(control.Keyring), "keys of the kernel are not seen"},
		{string(control.Landlock), "only some paths can be written"},
		{string(control.LiveCalls), "nothing dangerous is made in a shared directory"},
		{string(control.Masks), "masked paths cannot be seen or changed"},
		{string(control.NetNS), "the network is the cell's own"},
		{string(control.NoNewPrivs), "no program gives more rights"},
		{string(control.NoSUID), "set-id bits have no effect"},
		{string(control.OwnEtc), "users, hosts and names are the cell's own"},
		{string(control.PIDNS), "processes of the host are not seen"},
		{string(control.Plain), "no core dumps, better priority or protection from the memory killer"},
		{string(control.ProcMasks), "parts of /proc that tell about the host are covered"},
		{string(control.PublicView), "only what all users of the host may read is shown"},
		{string(control.ReadOnly), "the system cannot be written"},
		{string(control.ReadOnlyProc), "settings of the kernel cannot be written"},
		{string(control.Seccomp), "system calls outside of a list are denied"},
		{string(control.Signals), "no blocked or ignored signal is inherited"},
		{string(control.UserNS), "root in the cell is not root on the host"},
		{string(control.UserNSLimit), "no further user namespaces can be made"},
		{string(control.UTSNS), "the host name is the cell's own"},
		{string(control.Workdir), "no way out through the working directory"},
	}
}

// check compares the driver's column with what the suite has shown, when all of its
// tests have ended. Other hosts, and ordinary users, may have less: the page is that
// of a host that has everything, as root.
func (s Suite) check(t *testing.T, shown map[control.Name]bool) {
	t.Helper()
	if t.Failed() || os.Geteuid() != 0 || !*update && os.Getenv("FORKCELL_TEST_STRICT") != "1" {
		return
	}
	text, err := os.ReadFile(s.Table.File)
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Table.set(string(text), s.column(shown))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(s.Table.File, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the column %s of %s is not what the tests have shown; -update writes it", s.Table.Column, s.Table.File)
	}
}

// column returns what the driver does, by row.
func (s Suite) column(shown map[control.Name]bool) map[string]string {
	values := map[string]string{}
	word := func(yes bool, no string) string {
		if yes {
			return "yes"
		}
		return no
	}
	for _, r := range claimRows() {
		values[r.means] = word(s.claims(Claim(r.name)), "no")
	}
	// What is missing beside a kernel of one's own, that kernel stands for.
	missing := "no"
	if s.OwnKernel {
		missing = "its kernel"
	}
	for _, r := range controlRows() {
		values[r.name] = word(shown[control.Name(r.name)], missing)
	}
	return values
}

// set returns the page with other values in the column. A row begins with its key: what
// a claim means, or the name of a control.
func (t *Table) set(page string, values map[string]string) (string, error) {
	lines := strings.Split(page, "\n")
	at := -1
	for i, line := range lines {
		inner := strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |")
		cells := strings.Split(inner, " | ")
		if found := slices.Index(cells, t.Column); found > 0 {
			at = found
		}
		value, ok := values[cells[0]]
		if !ok || at < 0 || at >= len(cells) {
			continue
		}
		delete(values, cells[0])
		cells[at] = value
		lines[i] = "| " + strings.Join(cells, " | ") + " |"
	}
	if len(values) > 0 {
		return "", fmt.Errorf("%s has no row for %q", t.File, values)
	}
	return strings.Join(lines, "\n"), nil
}
