// Package mountfd makes mounts and works on directories by descriptors.
//
// It knows the kernel's calls and nothing of cells. A cell's first process links it,
// so it imports nothing whose initialisation takes time.
package mountfd
