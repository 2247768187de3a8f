package workspacetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// Bytes formats what is not always text: a path, or contents.
func Bytes(format string, args ...any) []byte { return []byte(fmt.Sprintf(format, args...)) }

// acl is user::rwx, user:ID:r--, group::r-x, mask::r-x, other::---. An ordinary
// user's actor knows no other id than its own.
func acl() []byte {
	id := "\xd2\x04\x00\x00"
	if os.Geteuid() != 0 {
		id = "\x00\x00\x00\x00"
	}
	return []byte("\x02\x00\x00\x00" +
		"\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00" + id +
		"\x04\x00\x05\x00\xff\xff\xff\xff" + "\x10\x00\x05\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff")
}

// SourceActs make a tree with every kind of entry and attribute that a state
// keeps.
func SourceActs() []Act {
	acts := []Act{
		{Do: "write", Path: Bytes("file"), Data: Bytes("hello\n")},
		{Do: "write", Path: Bytes("empty")},
		{Do: "write", Path: Bytes("big"), Data: bytes.Repeat(Bytes("0123456789abcdef"), 1<<16)},
		{Do: "sparse", Path: Bytes("sparse"), N: 1 << 20, Data: Bytes("middle"), M: 1 << 20},
		{Do: "sparse", Path: Bytes("hole"), N: 0, M: 3 << 20},
		{Do: "mkdir", Path: Bytes("dir")},
		{Do: "write", Path: Bytes("dir/in"), Data: Bytes("in")},
		{Do: "mkdir", Path: Bytes("dir/sub")},
		{Do: "write", Path: Bytes("dir/sub/deep"), Data: Bytes("deep")},
		{Do: "mkdir", Path: Bytes("emptydir")},
		{Do: "symlink", Path: Bytes("link"), To: Bytes("file")},
		{Do: "symlink", Path: Bytes("dangling"), To: Bytes("no/such\nthing")},
		{Do: "symlink", Path: Bytes("absolute"), To: Bytes("/etc/passwd")},
		{Do: "symlink", Path: Bytes("tosub"), To: Bytes("dir/../dir")},
		{Do: "write", Path: Bytes("hard1"), Data: Bytes("hard")},
		{Do: "link", Path: Bytes("hard2"), To: Bytes("hard1")},
		{Do: "link", Path: Bytes("dir/hard3"), To: Bytes("hard1")},
		{Do: "write", Path: Bytes("pair1"), Data: Bytes("pair")},
		{Do: "link", Path: Bytes("pair2"), To: Bytes("pair1")},
		{Do: "fifo", Path: Bytes("fifo")},
		{Do: "sock", Path: Bytes("sock")},
		{Do: "xattr", Path: Bytes("file"), To: Bytes("user.note"), Data: []byte{0, 1, 255}},
		{Do: "xattr", Path: Bytes("dir"), To: Bytes("user.dir"), Data: Bytes("d")},
		{Do: "xattr", Path: Bytes("dir/in"), To: Bytes("system.posix_acl_access"), Data: acl()},
		{Do: "mkdir", Path: Bytes("acldir")},
		{Do: "xattr", Path: Bytes("acldir"), To: Bytes("system.posix_acl_default"), Data: acl()},
		{Do: "write", Path: Bytes("name\xff\xfe\n\x1b[31m"), Data: Bytes("bytes")},
		{Do: "write", Path: Bytes(".wh.file"), Data: Bytes("not a whiteout")},
		{Do: "mkdir", Path: Bytes(".wh..wh..opq")},
		{Do: "write", Path: Bytes("noread"), Data: Bytes("secret")},
		{Do: "xattr", Path: Bytes("noread"), To: Bytes("user.hidden"), Data: Bytes("x")},
		{Do: "chmod", Path: Bytes("noread"), N: 0},
		{Do: "mkdir", Path: Bytes("nodir")},
		{Do: "write", Path: Bytes("nodir/inside"), Data: Bytes("inside")},
		{Do: "mkdir", Path: Bytes("ro")},
		{Do: "write", Path: Bytes("ro/file"), Data: Bytes("ro")},
		{Do: "write", Path: Bytes("suid"), Data: Bytes("x")},
		{Do: "chmod", Path: Bytes("suid"), N: 0o6755},
		{Do: "mkdir", Path: Bytes("sticky")},
		{Do: "chmod", Path: Bytes("sticky"), N: 0o3777},
		{Do: "mkdir", Path: Bytes("wide")},
		{Do: "mkdir", Path: Bytes("olddir")},
		{Do: "write", Path: Bytes("olddir/x"), Data: Bytes("x")},
		{Do: "write", Path: Bytes("olddir/y"), Data: Bytes("y")},
	}
	for i := range 150 {
		acts = append(acts, Act{Do: "write", Path: Bytes("wide/%03d", i), Data: Bytes("%d", i)})
	}
	if os.Geteuid() == 0 {
		acts = append(acts,
			Act{Do: "chown", Path: Bytes("file"), N: 1234, M: 4321},
			Act{Do: "chown", Path: Bytes("dir"), N: 70000, M: 0},
			Act{Do: "chown", Path: Bytes("link"), N: 7, M: 8},
		)
	}
	return append(acts,
		Act{Do: "mtime", Path: Bytes("file"), N: 1, M: 999999999},
		Act{Do: "mtime", Path: Bytes("link"), N: 1000000000, M: 1},
		Act{Do: "mtime", Path: Bytes("dangling"), N: -5, M: 5},
		Act{Do: "mtime", Path: Bytes("fifo"), N: 4102444800, M: 123456789},
		Act{Do: "mtime", Path: Bytes("dir"), N: 1234567890, M: 123},
		Act{Do: "chmod", Path: Bytes("nodir"), N: 0},
		Act{Do: "chmod", Path: Bytes("ro"), N: 0o555},
		Act{Do: "xattr", Path: Bytes("."), To: Bytes("user.root"), Data: Bytes("r")},
		Act{Do: "chmod", Path: Bytes("."), N: 0o750},
		Act{Do: "mtime", Path: Bytes("."), N: 987654321, M: 42},
	)
}

// ChangeActs make one change of every kind.
func ChangeActs() []Act {
	return []Act{
		{Do: "write", Path: Bytes("new"), Data: Bytes("new")},
		{Do: "append", Path: Bytes("file"), Data: Bytes("more\n")},
		{Do: "append", Path: Bytes("hard2"), Data: Bytes("er")},
		{Do: "rm", Path: Bytes("empty")},
		{Do: "rm", Path: Bytes("link")},
		{Do: "mkdir", Path: Bytes("link")}, // a link becomes a directory
		{Do: "write", Path: Bytes("link/x"), Data: Bytes("x")},
		{Do: "rm", Path: Bytes("emptydir")},
		{Do: "write", Path: Bytes("emptydir"), Data: Bytes("a file now")},
		{Do: "rm", Path: Bytes("olddir")}, // deleted and made again
		{Do: "mkdir", Path: Bytes("olddir")},
		{Do: "write", Path: Bytes("olddir/y"), Data: Bytes("other y")},
		{Do: "mv", Path: Bytes("dir/sub"), To: Bytes("moved")},
		{Do: "mv", Path: Bytes("big"), To: Bytes("dir/bigger")},
		{Do: "write", Path: Bytes("n1"), Data: Bytes("n")},
		{Do: "link", Path: Bytes("n2"), To: Bytes("n1")},
		{Do: "link", Path: Bytes("dir/pair3"), To: Bytes("pair1")},
		{Do: "rm", Path: Bytes("pair2")},
		{Do: "chmod", Path: Bytes("noread"), N: 0o400},
		{Do: "append", Path: Bytes("nodir/inside"), Data: Bytes("!")},
		{Do: "write", Path: Bytes("ro/second"), Data: Bytes("2")},
		{Do: "rm", Path: Bytes("wide/077")},
		{Do: "write", Path: Bytes("wide/078"), Data: Bytes("changed")},
		{Do: "write", Path: Bytes(".wh.new"), Data: Bytes("w")},
		{Do: "rm", Path: Bytes(".wh.file")},
		{Do: "fifo", Path: Bytes("fifo2")},
		{Do: "rm", Path: Bytes("sock")},
		{Do: "sparse", Path: Bytes("sparse2"), N: 2 << 20, Data: Bytes("end")},
		{Do: "xattr", Path: Bytes("wide/001"), To: Bytes("user.a"), Data: Bytes("1")},
		{Do: "xattr", Path: Bytes("wide/002"), To: Bytes("system.posix_acl_access"), Data: acl()},
		{Do: "mtime", Path: Bytes("wide/003"), N: 77, M: 7},
		{Do: "symlink", Path: Bytes("name\xff2"), To: Bytes("\xfe")},
		{Do: "mtime", Path: Bytes("."), N: 5, M: 6},
	}
}

// NewFile is an edit that makes or changes a file.
func NewFile(path, data string) workspace.Edit {
	return workspace.Edit{
		Path: path,
		New: &tree.Entry{
			Kind: tree.KindFile, Mode: 0o640, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
			Size: int64(len(data)), Digest: sha256.Sum256([]byte(data)), MTime: fsx.Time{Sec: 5, Nsec: 6},
		},
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil },
	}
}

// areaSource is a directory of the host, with less in it than sourceActs: what
// a state keeps of a file does not depend on the area.
func areaSource() []Act {
	acts := []Act{
		{Do: "write", Path: Bytes("file"), Data: Bytes("hello\n")},
		{Do: "write", Path: Bytes("empty")},
		{Do: "mkdir", Path: Bytes("dir")},
		{Do: "write", Path: Bytes("dir/in"), Data: Bytes("in")},
		{Do: "xattr", Path: Bytes("dir/in"), To: Bytes("user.a"), Data: Bytes("1")},
		{Do: "mkdir", Path: Bytes("dir/sub")},
		{Do: "mkdir", Path: Bytes("emptydir")},
		{Do: "symlink", Path: Bytes("link"), To: Bytes("file")},
		{Do: "write", Path: Bytes("hard1"), Data: Bytes("hard")},
		{Do: "link", Path: Bytes("hard2"), To: Bytes("hard1")},
		{Do: "fifo", Path: Bytes("fifo")},
		{Do: "write", Path: Bytes("noread"), Data: Bytes("secret")},
		{Do: "chmod", Path: Bytes("noread"), N: 0},
		{Do: "mkdir", Path: Bytes("wide")},
		{Do: "mkdir", Path: Bytes("olddir")},
		{Do: "write", Path: Bytes("olddir/x"), Data: Bytes("x")},
		{Do: "write", Path: Bytes("olddir/y"), Data: Bytes("y")},
	}
	for i := range 80 {
		acts = append(acts, Act{Do: "write", Path: Bytes("wide/%03d", i), Data: Bytes("%d", i)})
	}
	return append(acts, Act{Do: "chmod", Path: Bytes("."), N: 0o750}, Act{Do: "mtime", Path: Bytes("."), N: 987654321, M: 42})
}

// areaChanges make one change of every kind in such an area.
func areaChanges() []Act {
	return []Act{
		{Do: "append", Path: Bytes("file"), Data: Bytes("more\n")},
		{Do: "rm", Path: Bytes("empty")},
		{Do: "rm", Path: Bytes("olddir")}, // deleted and made again
		{Do: "mkdir", Path: Bytes("olddir")},
		{Do: "write", Path: Bytes("olddir/y"), Data: Bytes("other y")},
		{Do: "mkdir", Path: Bytes("made")},
		{Do: "write", Path: Bytes("made/x"), Data: Bytes("x")},
		{Do: "link", Path: Bytes("made/z"), To: Bytes("made/x")},
		{Do: "rm", Path: Bytes("emptydir")},
		{Do: "write", Path: Bytes("emptydir"), Data: Bytes("a file now")},
		{Do: "rm", Path: Bytes("wide/077")},
		{Do: "chmod", Path: Bytes("dir/in"), N: 0o600},
		{Do: "write", Path: Bytes("dir/sub/fresh"), Data: Bytes("f")},
		{Do: "sparse", Path: Bytes("sparse2"), N: 2 << 20, Data: Bytes("end")},
		{Do: "append", Path: Bytes("hard2"), Data: Bytes("er")},
	}
}
