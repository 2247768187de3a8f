// Package repo holds the tests of the repository's own rules: which package may
// import which, that packages say what they are for, where unsafe code may be,
// and that every direct dependency has its reason. It has no other code,
// and nothing imports it.
package repo
