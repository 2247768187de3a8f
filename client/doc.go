// Package client uses a Forkcell daemon from a Go program.
//
// New connects to the daemon that FORKCELL_URL names, else to the one on the local
// socket. Cells makes cells and finds them; a Cell has the verbs of one cell:
//
//	c, err := client.New()
//	cell, err := c.Cells.CreateFrom(ctx, "./project", client.CreateCell{Policy: "dev"})
//	defer cell.Close(ctx)
//	r, err := cell.Run(ctx, client.Run{Command: client.Shell("go test ./..."), RestoreOnFail: true}, client.Stdout(os.Stdout))
//	if err == nil && r.OK() {
//		_, err = cell.Accept(ctx, client.Accept{Apply: true, Reason: "tests pass"})
//	}
//
// Every failure that the daemon reports is an *Error with a stable code. A command
// that fails is not an error: its exit code is in the result.
//
// # Retries
//
// A call is repeated after a lost connection, or if the daemon says that it is busy,
// only where that cannot do anything twice: a GET, and a POST with an idempotency key.
// The client makes such a key for each POST, except for Run, Exec and Race: without a
// key the end of the context ends what they started, which is what a caller who
// cancels expects. Give them IdempotencyKey to have them go on without the caller, and
// to get the recorded result after a lost connection.
//
// The package knows HTTP and the documents of the API. It links nothing of the
// sandbox.
package client
