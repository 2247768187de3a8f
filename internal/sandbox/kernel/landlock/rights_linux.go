package landlock

import "golang.org/x/sys/unix"

// newest is the ABI whose rights are known here. The kernel keeps newer ones
// compatible: what it has learned since is not used.
const newest = 7

// right is one thing that the kernel can refuse, since an ABI.
type right struct {
	bit  uint64
	abi  int
	name string
}

// Rights on files. Those on TCP ports are not used: they do not distinguish the cell's
// own loopback from anything else.
var fileRights = [...]right{
	{unix.LANDLOCK_ACCESS_FS_EXECUTE, 1, "execute"},
	{unix.LANDLOCK_ACCESS_FS_WRITE_FILE, 1, "write_file"},
	{unix.LANDLOCK_ACCESS_FS_READ_FILE, 1, "read_file"},
	{unix.LANDLOCK_ACCESS_FS_READ_DIR, 1, "read_dir"},
	{unix.LANDLOCK_ACCESS_FS_REMOVE_DIR, 1, "remove_dir"},
	{unix.LANDLOCK_ACCESS_FS_REMOVE_FILE, 1, "remove_file"},
	{unix.LANDLOCK_ACCESS_FS_MAKE_CHAR, 1, "make_char"},
	{unix.LANDLOCK_ACCESS_FS_MAKE_DIR, 1, "make_dir"},
	{unix.LANDLOCK_ACCESS_FS_MAKE_REG, 1, "make_reg"},
	{unix.LANDLOCK_ACCESS_FS_MAKE_SOCK, 1, "make_sock"},
	{unix.LANDLOCK_ACCESS_FS_MAKE_FIFO, 1, "make_fifo"},
	{unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK, 1, "make_block"},
	{unix.LANDLOCK_ACCESS_FS_MAKE_SYM, 1, "make_sym"},
	{unix.LANDLOCK_ACCESS_FS_REFER, 2, "refer"},
	{unix.LANDLOCK_ACCESS_FS_TRUNCATE, 3, "truncate"},
	{unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, 5, "ioctl_dev"},
}

var scopes = [...]right{
	{unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, 6, "scope_abstract_unix_socket"},
	{unix.LANDLOCK_SCOPE_SIGNAL, 6, "scope_signal"},
}

// What each list of a Ruleset grants.
const (
	grantRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	grantExisting = grantRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE

	// Device nodes are not made in a cell, and not used outside its /dev.
	grantWrite = grantExisting | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER

	grantDevices = grantExisting | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// The rights that a rule on something other than a directory may have.
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// upTo is the union of the rights that an ABI has.
func upTo(abi int, rights []right) uint64 {
	var all uint64
	for _, r := range rights {
		if r.abi <= abi {
			all |= r.bit
		}
	}
	return all
}

func names(mask uint64, rights []right, in bool) []string {
	var list []string
	for _, r := range rights {
		if (mask&r.bit != 0) == in {
			list = append(list, r.name)
		}
	}
	return list
}
