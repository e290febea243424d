// Package follow keeps up to date what was made of files: when their content changes, it is made again. Invalid
// content is reported, and the last valid one stays in use.
package follow

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// Every is how often files are looked at.
	Every = time.Second
	// Retry is after how long content that could not be used is tried again, for what it needs may have come meanwhile,
	// and after how long files are read again whose sizes and times say that they are the same.
	Retry = time.Minute
)

// Files are some files of which something is made together.
type Files struct {
	// Failed is called each time new content could not be applied; nil is allowed. It is set before Run.
	Failed func()

	paths     []string
	apply     func(ctx context.Context, contents [][]byte) error
	applied   sum
	failed    sum
	permanent bool // what failed
	retryAt   time.Time

	infos   []os.FileInfo // before the last read; nil for a file that could not be looked up
	settled time.Time     // until when files of the same infos need not be read; zero if they changed lately
}

type sum [sha256.Size]byte

// Permanent marks what apply says of content that is wrong by itself, so that to try it again would be no use. nil
// stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent tells whether an error is marked so.
func IsPermanent(err error) bool { return errors.As(err, new(*permanentError)) }

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// New reads the files and calls apply with their contents, in the order of the paths. It fails if that does, with an
// error that names the file that can't be read, or all of them.
func New(apply func(ctx context.Context, contents [][]byte) error, paths ...string) (*Files, error) {
	f := &Files{paths: paths, apply: apply}
	contents, sum, err := f.read()
	if err != nil {
		return nil, err
	}
	if err := apply(context.Background(), contents); err != nil {
		return nil, err
	}
	f.applied = sum
	return f, nil
}

// Run calls apply for contents that differ from those applied last, until ctx ends. It is called once.
func (f *Files) Run(ctx context.Context, clk clock.WithTicker) error {
	ticker := clk.NewTicker(Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if err := f.look(ctx, clk.Now()); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Keeping what was read before", "files", f.paths)
			}
		}
	}
}

// look applies what is new. A failure is reported once and retried periodically, unless it is permanent. Files whose
// sizes and times stay the same are seldom read.
func (f *Files) look(ctx context.Context, now time.Time) error {
	infos := f.stat()
	same := slices.EqualFunc(infos, f.infos, sameFile)
	if same && now.Before(f.settled) {
		return nil
	}
	f.infos, f.settled = infos, time.Time{}
	contents, read, err := f.read()
	if err == nil && read == f.applied {
		f.failed = sum{}
		if same { // after the first read, a write may have come that the file's time does not tell of
			f.settled = now.Add(Retry)
		}
		return nil
	}
	if read == f.failed && (f.permanent || now.Before(f.retryAt)) {
		return nil
	}
	if err == nil {
		if err = f.apply(ctx, contents); err == nil {
			klog.FromContext(ctx).Info("Read again", "files", f.paths)
			f.applied, f.failed = read, sum{}
			return nil
		}
	}
	f.failed, f.permanent, f.retryAt = read, IsPermanent(err), now.Add(Retry)
	if f.Failed != nil {
		f.Failed()
	}
	return err
}

// stat looks up all files, the targets of links.
func (f *Files) stat() []os.FileInfo {
	infos := make([]os.FileInfo, len(f.paths))
	for i, path := range f.paths {
		if info, err := os.Stat(path); err == nil { // read tells of what fails
			infos[i] = info
		}
	}
	return infos
}

func sameFile(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read returns all contents and their sum; the sum of files that can't be read is that of the error.
func (f *Files) read() ([][]byte, sum, error) {
	hash := sha256.New()
	contents := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, sha256.Sum256([]byte(err.Error())), err
		}
		fmt.Fprintf(hash, "%d:", len(content))
		hash.Write(content)
		contents[i] = content
	}
	return contents, sum(hash.Sum(nil)), nil
}
