// Package python has the parts of the Python package that the program itself uses.
package python

import _ "embed"

// Warm is the module forkcell.warm, by which an interpreter can be copied.
//
//go:embed src/forkcell/warm.py
var Warm string
