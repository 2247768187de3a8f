// Package token decides who may do what through the API of a daemon: tokens with
// scopes, a prefix of cell names, credentials, a policy as a ceiling, quotas and an
// end.
//
// A token is a secret that is shown once. Its hash is kept in the file tokens.json
// of a home, or in a file that the operator gives to the daemon; both have the same
// format, and a change of either is seen at the next check. Book keeps tokens and
// checks secrets, Gate makes guessing slow, Limiter counts what is used at a time.
//
// The package must not know HTTP, cells, policies' meaning or where a home is: it
// is handed a Home that reads and replaces one file.
package token
