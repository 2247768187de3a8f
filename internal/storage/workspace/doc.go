// Package workspace keeps the states of all cells of one home: it imports a
// source, opens writable generations on a sealed state, seals them, and writes
// states out as files, whole or in parts.
//
// A state is a sealed layer. Its form depends on the backend: overlay stacks the
// changes of each generation, clone keeps a full copy of each, delta keeps
// contents by digest and leaves the files in the real directory. Every backend
// passes the suite in package workspacetest.
//
// The package knows the home's directories layers, pending, objects, live and
// applies, and nothing else of the home. It must not know what runs in a
// cell, what a receipt is, or how states are named and found. Its callers hold
// the locks.
//
// # The life of a Work
//
// The caller names each operation, such as "run_17", and records the name before
// the call: only the name leads back to the operation after a crash. The operation
// run_17 works in pending/run_17, and the layer that it makes is lay_17.
//
//	call            on disk afterwards                         then
//
//	Import          layers/lay_1: the source, sealed           Begin
//	Begin           pending/run_2: a directory for each area,  RecordInit, Mounts
//	                the file generation as the last thing
//	Mounts          as before                                  the caller mounts them, a command runs
//	Capture         pending/op_3 too: a copy                   Capture.Seal or Capture.Discard
//	Seal            layers/lay_2; pending/run_2 is gone        the caller records lay_2
//	Seal, nothing   as before: the caller records that         Discard
//	  has changed     the state is lay_1
//	Seal fails      as before; or layers/lay_2, if only its    Seal again or Discard; or Close, and
//	                name could not be made durable             Resume, which finds out
//	Discard         pending/run_2 is gone                      nothing: the Work has ended
//	Close           as before, open files are closed           Resume
//
// Seal makes the layer durable before it returns. It renames the directory from
// pending to layers, so that the generation or the state exists and never both.
// The rest of the order is the caller's: a run is recorded before Begin, its end
// after Seal, and Discard of an unchanged generation comes after that.
//
// A caller that finds a record without an end calls Resume with its operation:
//
//	Resume returns      the crash was                     the caller
//
//	neither             before the end of Begin, or       records that nothing was run
//	                    after Discard; what was begun
//	                    is removed
//	a Work              between Begin and Seal            looks at InitRecord, ends the processes,
//	                                                      then Seal or Discard
//	a Sealed            after the rename in Seal          records the state
//
// A delta cell's workspace is a real directory, which Discard does not touch: its
// changes stay there, and the caller takes them back with Switch, or seals them
// with Drift before the next Begin.
//
// Nothing is removed from layers but by Sweep, which keeps what the caller names
// and all layers below that.
package workspace
