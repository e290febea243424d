package logs

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// writer writes the file of one run of a container, a record per line: time, stream, tag and content. The tag is F for
// a full line and P for a part of one. One goroutine uses it.
type writer struct {
	path     string
	maxBytes int64
	maxFiles int
	clock    clock.PassiveClock

	file *os.File
	size int64
	// resume is the time from which on the engine is read again, zero for all. written counts records of that time and
	// later that are in the file, by their hash: they come again, and are dropped.
	resume  time.Time
	written map[uint64]int
	last    uint64 // the hash of the last record that was written
}

// open opens the file, or makes it.
func open(path string, maxBytes int64, maxFiles int, clock clock.PassiveClock) (*writer, error) {
	w := &writer{path: path, maxBytes: maxBytes, maxFiles: maxFiles, clock: clock}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := w.reopen(); err != nil {
		return nil, err
	}
	if err := w.continueFile(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *writer) reopen() error {
	file, err := os.OpenFile(w.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	w.file, w.size = file, info.Size()
	return nil
}

func (w *writer) close() {
	if w.file != nil {
		_ = w.file.Close() // everything was written
	}
}

// tail is how much of the end of a file is read to find its last records: more than the engine puts into one. Times may
// go back a little from one record to the next, as those of two streams do, but not further than that.
const tail = 256 << 10

// continueFile finds out where the file ends. What is left of a record that was being written is cut off.
func (w *writer) continueFile() error {
	end, err := readTail(w.file, w.size)
	if err != nil {
		return err
	}
	if whole := bytes.LastIndexByte(end, '\n') + 1; whole < len(end) {
		w.size -= int64(len(end) - whole)
		if err := w.file.Truncate(w.size); err != nil {
			return err
		}
		end = end[:whole]
	}
	if len(end) == 0 { // it was rotated just before
		if end, err = w.lastRotated(); err != nil {
			return err
		}
	}
	w.resume, w.written = lastRecords(end)
	return nil
}

func readTail(file *os.File, size int64) ([]byte, error) {
	end := make([]byte, min(size, tail))
	_, err := file.ReadAt(end, size-int64(len(end)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return end, err
}

// lastRotated is the end of the newest file that was rotated, which is not compressed.
func (w *writer) lastRotated() ([]byte, error) {
	rotated, err := w.rotated()
	if err != nil || len(rotated) == 0 || filepath.Ext(rotated[len(rotated)-1]) == zipped {
		return nil, err
	}
	file, err := os.Open(rotated[len(rotated)-1])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return readTail(file, info.Size())
}

// lastRecords counts the records by their hash from a time on, which it returns: that of the oldest, or the next one,
// as records before the tail may have the time of the oldest.
func lastRecords(end []byte) (from time.Time, written map[uint64]int) {
	var oldest time.Time
	times := map[uint64]time.Time{}
	written = map[uint64]int{}
	for record := range bytes.Lines(end) {
		text, _, _ := bytes.Cut(record, []byte(" "))
		at, err := time.Parse(time.RFC3339Nano, string(text))
		if err != nil {
			continue // its begin is before the tail
		}
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
		times[hash(record)] = at
		written[hash(record)]++
	}
	from = oldest
	for _, at := range times {
		if len(end) == tail && at.After(oldest) && (from.Equal(oldest) || at.Before(from)) {
			from = at
		}
	}
	maps.DeleteFunc(written, func(key uint64, _ int) bool { return times[key].Before(from) })
	return from, written
}

func hash(record []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(record) // which never fails
	return h.Sum64()
}

func (w *writer) record(stream string, message []byte) error {
	text, content, _ := bytes.Cut(message, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil { // the rest of a message that was too long for one
		at, content = w.clock.Now().UTC(), message
	}
	tag := " P "
	if bytes.HasSuffix(content, []byte("\n")) {
		tag, content = " F ", content[:len(content)-1]
	}
	record := make([]byte, 0, len(message)+len(stream)+len(time.RFC3339Nano))
	record = at.AppendFormat(record, time.RFC3339Nano)
	record = append(append(append(append(append(record, ' '), stream...), tag...), content...), '\n')
	key := hash(record)
	// An engine may tell the last line of a file again when it rotates it.
	if again := tag == " F " && key == w.last; again || w.repeats(at, record) {
		return nil
	}
	w.last = key
	n, err := w.file.Write(record)
	w.size += int64(n)
	if err != nil {
		return err
	}
	if w.size >= w.maxBytes {
		return w.rotate()
	}
	return nil
}

// repeats tells a record that is in the file already.
func (w *writer) repeats(at time.Time, record []byte) bool {
	if len(w.written) == 0 {
		return false
	}
	if at.Before(w.resume) {
		return true
	}
	key := hash(record)
	switch w.written[key] {
	case 0:
		return false
	case 1:
		delete(w.written, key)
	default:
		w.written[key]--
	}
	return true
}

// stream takes what the engine has of a stream, in pieces of any size: messages of a time, a space, and a line or a
// part of one. A part ends where the time of the next message begins a piece.
type stream struct {
	w    *writer
	name string
	rest []byte // of a message that has not ended
}

func (w *writer) stream(name string) *stream { return &stream{w: w, name: name} }

// longest is how much of a message waits for its end: more than the engine puts into one.
const longest = 64 << 10

// Write implements io.Writer.
func (s *stream) Write(piece []byte) (int, error) {
	if begins(piece) || len(s.rest) > longest {
		if err := s.end(); err != nil {
			return 0, err
		}
	}
	s.rest = append(s.rest, piece...)
	for {
		i := bytes.IndexByte(s.rest, '\n')
		if i < 0 {
			break
		}
		if err := s.w.record(s.name, s.rest[:i+1]); err != nil {
			return 0, err
		}
		s.rest = s.rest[i+1:]
	}
	s.rest = append([]byte(nil), s.rest...) // the lines before it are not kept
	return len(piece), nil
}

// begins tells that a piece is the begin of a message.
func begins(piece []byte) bool {
	text, _, found := bytes.Cut(piece[:min(len(piece), len(time.RFC3339Nano)+1)], []byte(" "))
	_, err := time.Parse(time.RFC3339Nano, string(text))
	return found && err == nil
}

// end takes what is left as a part of a line.
func (s *stream) end() error {
	if len(s.rest) == 0 {
		return nil
	}
	message := s.rest
	s.rest = nil
	return s.w.record(s.name, message)
}

// exists tells whether a file is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
