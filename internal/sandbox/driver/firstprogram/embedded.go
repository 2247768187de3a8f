//go:build smallfirst

package firstprogram

import _ "embed" // the compiler adds the file

//go:embed forkcell-first
var content []byte
