package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

const (
	// logPoll is how often the file of a container that is followed is looked at.
	logPoll = 50 * time.Millisecond
	// logChecks is at how many looks that find nothing the engine is asked whether the container still runs.
	logChecks = 4
)

// Logs implements runtime.Streams: it reads the file that the engine writes, and those that take its place when it is
// rotated.
func (e *Engine) Logs(ctx context.Context, id string, options runtime.LogOptions, stdout, stderr io.Writer) error {
	state, path, err := e.log(ctx, id)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && state != cri.ContainerState_CONTAINER_RUNNING {
		return nil // it was never started, or its log is gone
	}
	if err != nil {
		return err
	}
	r := &reader{path: path, file: file, out: recordWriter{options: options, stdout: stdout, stderr: stderr}}
	defer func() { _ = r.file.Close() }()
	if options.Tail != nil {
		if err := r.seekTail(*options.Tail); err != nil {
			return err
		}
	}
	for quiet := 1; ; quiet++ {
		more, err := r.copy()
		switch {
		case err != nil:
			return err
		case more:
			quiet = 0
			continue
		case !options.Follow || state == cri.ContainerState_CONTAINER_EXITED:
			return nil
		}
		if quiet%logChecks == 0 { // its end is read once more, as it ends
			if state, _, err = e.log(ctx, id); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(logPoll):
		}
	}
}

// log finds the state of a container and the file of its output.
func (e *Engine) log(ctx context.Context, id string) (cri.ContainerState, string, error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	answer, err := e.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return 0, "", mark(err)
	}
	c := answer.GetStatus()
	path := c.GetLogPath()
	if path == "" {
		path = filepath.Join(podLogs(e.options.LogDir, podOf(c.GetLabels())),
			logFile(c.GetMetadata().GetName(), int(c.GetMetadata().GetAttempt())))
	}
	return c.GetState(), path, nil
}

// reader reads records, a line each, of a file that grows and is rotated.
type reader struct {
	path string
	file *os.File
	rest []byte // of a record that is not whole yet
	out  recordWriter
}

// copy writes what came since, and tells whether there was anything.
func (r *reader) copy() (bool, error) {
	var block [32 << 10]byte
	n, err := r.file.Read(block[:])
	if n > 0 {
		r.rest = append(r.rest, block[:n]...)
		for {
			i := bytes.IndexByte(r.rest, '\n')
			if i < 0 {
				break
			}
			if err := r.out.record(r.rest[:i]); err != nil {
				return true, err
			}
			r.rest = r.rest[i+1:]
		}
		r.rest = bytes.Clone(r.rest) // the records before it are not kept
		return true, nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return r.next()
}

// next goes on with the file that took the place of one that was rotated, if any did.
func (r *reader) next() (bool, error) {
	old, err := r.file.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) { // it is being rotated
		return false, nil
	}
	if err != nil || os.SameFile(old, now) {
		return false, err
	}
	file, err := os.Open(r.path)
	if err != nil {
		return false, err
	}
	_ = r.file.Close()
	r.file, r.rest = file, nil
	return true, nil
}

// seekTail goes to where the last lines begin.
func (r *reader) seekTail(lines int64) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	start, err := tailStart(r.file, info.Size(), lines)
	if err != nil {
		return err
	}
	_, err = r.file.Seek(start, io.SeekStart)
	return err
}

// tailStart is where the last lines of a file of so many bytes begin. What is after the last line counts as none.
func tailStart(file io.ReaderAt, size, lines int64) (int64, error) {
	const block = 32 << 10
	var buffer [block]byte
	for end := size; end > 0; {
		begin := max(0, end-block)
		part := buffer[:end-begin]
		if _, err := file.ReadAt(part, begin); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] != '\n' {
				continue
			}
			if lines == 0 {
				return begin + int64(i) + 1, nil
			}
			lines--
		}
		end = begin
	}
	return 0, nil
}

// recordWriter writes the content of records: a time, a stream, tags and the content, divided by spaces.
type recordWriter struct {
	options        runtime.LogOptions
	stdout, stderr io.Writer
	// inside tells of each stream that a line of it has begun.
	inside [2]bool
}

func (w *recordWriter) record(line []byte) error {
	stamp, rest, ok1 := bytes.Cut(line, []byte(" "))
	name, rest, ok2 := bytes.Cut(rest, []byte(" "))
	tags, content, ok3 := bytes.Cut(rest, []byte(" "))
	written, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !ok1 || !ok2 || !ok3 || err != nil {
		return fmt.Errorf("log record %.100q is not in the format of CRI", line)
	}
	if written.Before(w.options.Since) {
		return nil
	}
	out, stream := w.stdout, 0
	if string(name) == "stderr" {
		out, stream = w.stderr, 1
	}
	if out == nil {
		return nil
	}
	var text []byte
	if w.options.Timestamps && !w.inside[stream] {
		text = append(append(text, stamp...), ' ')
	}
	text = append(text, content...)
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	w.inside[stream] = string(tag) == "P"
	if !w.inside[stream] {
		text = append(text, '\n')
	}
	_, err = out.Write(text)
	return err
}
