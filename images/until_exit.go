package images

import (
	"errors"
	"io"
	"sync"
)

// untilExit reads the output of a process. It ends with an error where the process failed, so that what reads it never
// takes a part for the whole.
type untilExit struct {
	reader io.Reader
	wait   func() error
	once   sync.Once
	err    error
}

// Read implements io.Reader.
func (u *untilExit) Read(p []byte) (int, error) {
	n, err := u.reader.Read(p)
	if errors.Is(err, io.EOF) {
		if failed := u.end(); failed != nil {
			err = failed
		}
	}
	return n, err
}

// end waits for the process once.
func (u *untilExit) end() error {
	u.once.Do(func() { u.err = u.wait() })
	return u.err
}
