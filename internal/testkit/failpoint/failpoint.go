// Package failpoint names the instants at which a crash would hurt, so that
// tests can kill the program exactly there.
//
// In an ordinary build every call is empty and is compiled away. A binary built
// with the tag "failpoints" obeys FORKCELL_FAILPOINT.
package failpoint
