// Package publish makes a commit of accepted work on a branch of a repository of the
// host, and sends it on. Everything that the repository and the work hold is
// untrusted: both may come from a cell.
//
// The installed git does the work, in a scratch directory. It never has the
// repository of the host as its repository. The scratch directory gets the objects
// of the base commit, each of them hashed and checked again, and nothing else:
// no configuration, hook, filter, attribute, alternate, replacement or submodule.
// git is given an environment made for it, and of the operator's own global
// configuration the identity, the signing key and, for a push, the credentials.
//
// The package knows git and file names. It knows nothing of cells, receipts and the
// command line.
package publish
