// Package clockfile shifts the clock of a program by a file that another process writes, while the program runs: the
// file offset in the directory that Env names holds a duration. The program answers in a file beside it by what its
// clock is off now, so that the writer knows that it took effect, and that the program is one which can be shifted.
package clockfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	quintetclock "quintet.dev/quintet/clock"
)

const (
	// Env is the environment variable that names the directory. Where it is not set, time is real.
	Env = "QUINTET_CLOCK_DIR"
	// Offset is the name of the file with the duration, in Go's form: "-2h30m0s".
	Offset = "offset"
	// Every is how often a program reads that file.
	Every = 500 * time.Millisecond
)

// Applied is the name of the file in which a program says what its clock is off by, in the form of the other file.
func Applied(program string) string { return "applied-by-" + program }

// Format is the content of both files.
func Format(d time.Duration) []byte { return []byte(d.String() + "\n") }

// Parse reads what Format wrote.
func Parse(content []byte) (time.Duration, error) {
	return time.ParseDuration(string(bytes.TrimSpace(content)))
}

// Clock is the clock of this process, which runs program. It is as the file has it when Clock returns, and follows it
// until ctx ends.
func Clock(ctx context.Context, program string) clock.WithTickerAndDelayedExecution {
	dir := os.Getenv(Env)
	if dir == "" {
		return clock.RealClock{}
	}
	f := &follower{dir: dir, program: program}
	f.look()
	go f.follow(ctx)
	return quintetclock.Shifted(clock.RealClock{}, func() time.Duration { return time.Duration(f.off.Load()) })
}

// follower keeps an offset as the file has it. look is called by one goroutine at a time.
type follower struct {
	dir, program string
	off          atomic.Int64
	last         []byte // of the file; nil as long as there was none
}

func (f *follower) follow(ctx context.Context) {
	ticker := time.NewTicker(Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f.look()
		}
	}
}

// look reads the file. One that is gone or can't be read leaves the clock as it is.
func (f *follower) look() {
	content, err := os.ReadFile(filepath.Join(f.dir, Offset))
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(content, f.last) {
		return
	}
	var off time.Duration
	if err == nil {
		off, err = Parse(content)
	}
	if err == nil {
		f.last = content // also if the answer fails, which is then not tried again
		f.off.Store(int64(off))
		err = f.answer(off)
	}
	if err != nil {
		klog.ErrorS(err, "Failed to shift the clock", "dir", f.dir)
		return
	}
	klog.InfoS("The clock is shifted", "by", fmt.Sprint(off))
}

// answer writes the file at once, as it may be read at any time.
func (f *follower) answer(off time.Duration) error {
	file := filepath.Join(f.dir, Applied(f.program))
	if err := os.WriteFile(file+".new", Format(off), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
