package cellinit

// nothingAddress returns the address of a handler of signals that does nothing.
func nothingAddress() uintptr
