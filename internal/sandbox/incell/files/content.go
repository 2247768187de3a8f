package files

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strconv"
	"syscall"

	"github.com/forkcell/forkcell/internal/api"
)

// maxPart bounds the bytes of one frame: a length in four bytes, and so many bytes.
const maxPart = 256 << 10

// maxLine bounds a JSON line of the program in the cell.
const maxLine = 64 << 10

// part is a request for bytes of a file that is read.
type part struct {
	Offset int64 `json:"offset"`
	Length int   `json:"length"`
}

// serve writes what a file is, and then the parts that stdin asks for. A link is
// followed.
func serve(at string, stdin io.Reader, stdout io.Writer) error {
	info, err := os.Stat(at)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", at, errNotFile)
	}
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(entry(info, at, at)); err != nil {
		return err
	}
	buf := make([]byte, 4+maxPart)
	for in := json.NewDecoder(stdin); ; {
		var p part
		err := in.Decode(&p)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || p.Length < 0 || p.Length > maxPart {
			return fmt.Errorf("malformed request: %w", err)
		}
		n, err := f.ReadAt(buf[4:4+p.Length], p.Offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		binary.BigEndian.PutUint32(buf, uint32(n))
		if _, err := stdout.Write(buf[:4+n]); err != nil {
			return err
		}
	}
}

// Reader reads a file that the program in the cell serves. It is an io.ReadSeeker.
type Reader struct {
	Info api.FileInfo
	ask  io.Writer
	from *bufio.Reader
	at   int64
	held []byte // read ahead, from at
}

// NewReader begins to read: the program writes to from, and reads from ask.
func NewReader(ask io.Writer, from io.Reader) (*Reader, error) {
	r := &Reader{ask: ask, from: bufio.NewReader(from)}
	err := readInfo(r.from, &r.Info)
	if err == nil && r.Info.Size < 0 {
		err = errors.New("a negative size")
	}
	return r, err
}

// readInfo reads one JSON line.
func readInfo(from *bufio.Reader, info *api.FileInfo) error {
	var line []byte
	for {
		some, err := from.ReadSlice('\n')
		line = append(line, some...)
		switch {
		case len(line) > maxLine:
			return errors.New("a line is too long")
		case err == nil:
			return json.Unmarshal(line, info)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.Info.Size
	}
	if offset < 0 {
		return 0, errors.New("negative position")
	}
	r.at, r.held = offset, nil
	return offset, nil
}

// Read implements io.Reader. The file has the size that it had when it was opened.
func (r *Reader) Read(p []byte) (int, error) {
	if len(r.held) == 0 {
		if err := r.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.held)
	r.held = r.held[n:]
	r.at += int64(n)
	return n, nil
}

// fetch reads ahead.
func (r *Reader) fetch() error {
	want := min(maxPart, r.Info.Size-r.at)
	if want <= 0 {
		return io.EOF
	}
	if err := json.NewEncoder(r.ask).Encode(part{r.at, int(want)}); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(r.from, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	switch {
	case int64(n) > want:
		return errors.New("more than was asked for")
	case n == 0:
		return io.ErrUnexpectedEOF // the file has become shorter
	}
	r.held = make([]byte, n)
	_, err := io.ReadFull(r.from, r.held)
	return err
}

// Send writes contents to the program that writes a file. Without its last frame
// nothing is changed.
func Send(to io.Writer, contents io.Reader) error {
	buf := make([]byte, 4+maxPart)
	for {
		n, readErr := contents.Read(buf[4:])
		if n > 0 {
			binary.BigEndian.PutUint32(buf, uint32(n))
			if _, err := to.Write(buf[:4+n]); err != nil {
				return err
			}
		}
		switch {
		case readErr == io.EOF: // one that is wrapped, or unexpected, is a failure
			_, err := to.Write(make([]byte, 4))
			return err
		case readErr != nil:
			return readErr
		}
	}
}

// write replaces a file by the contents that stdin has, all of them or nothing.
// Missing directories above it are made.
func write(out *json.Encoder, at, mode string, stdin io.Reader) (err error) {
	perm := os.FileMode(0o644)
	if old, err := os.Lstat(at); err == nil {
		if old.IsDir() {
			return fmt.Errorf("%s: %w", at, os.ErrExist)
		}
		if old.Mode().IsRegular() {
			perm = old.Mode().Perm()
		}
	}
	if mode != "" {
		bits, err := strconv.ParseUint(mode, 8, 9)
		if err != nil {
			return err
		}
		perm = os.FileMode(bits)
	}
	if err := os.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	// The host's side hangs up when its caller goes. Then the contents are cut off, and
	// nothing may be left.
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP)
	defer signal.Stop(hangUp)
	temp := path.Join(path.Dir(at), ".forkcell-put-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	filled := make(chan error, 1)
	go func() { filled <- fill(f, stdin) }()
	select {
	case err = <-filled:
	case <-hangUp:
		return errCut // the process ends, and with it the copy
	}
	if err := errors.Join(err, f.Chmod(perm), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, at); err != nil {
		return err
	}
	return describe(out, at)
}

// fill copies frames to a file.
func fill(f *os.File, stdin io.Reader) error {
	var size [4]byte
	for {
		if _, err := io.ReadFull(stdin, size[:]); err != nil {
			return errCut
		}
		n := int64(binary.BigEndian.Uint32(size[:]))
		if n == 0 {
			return nil
		}
		if copied, err := io.CopyN(f, stdin, n); err != nil {
			if errors.Is(err, io.EOF) || copied == n {
				return errCut
			}
			return err
		}
	}
}
