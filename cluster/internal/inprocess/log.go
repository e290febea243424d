package inprocess

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// maxLog bounds what is kept of a member's log, in bytes.
const maxLog = 16 << 20

// logBuffer keeps the end of a member's log in memory and lets readers follow it. The zero value is ready.
type logBuffer struct {
	mu      sync.Mutex
	bytes   []byte
	dropped int           // bytes that came before and are kept no more
	more    chan struct{} // closed by the next write; nil when no reader waits
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	l.bytes = append(l.bytes, p...)
	if len(l.bytes) > maxLog {
		// The older half goes, up to the end of a line.
		cut := len(l.bytes) - maxLog/2
		cut += bytes.IndexByte(l.bytes[cut:], '\n') + 1
		l.bytes, l.dropped = bytes.Clone(l.bytes[cut:]), l.dropped+cut
	}
	return len(p), nil
}

// copy writes the log to w; with until not nil, it follows the log until that is closed or ctx ends. A reader that is
// slower than the log misses what was dropped.
func (l *logBuffer) copy(ctx context.Context, w io.Writer, until <-chan struct{}) error {
	offset := 0
	for {
		l.mu.Lock()
		offset = max(offset, l.dropped)
		part := bytes.Clone(l.bytes[offset-l.dropped:])
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		offset += len(part)
		if _, err := w.Write(part); err != nil || until == nil {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		case <-until:
			until = nil // what was written last is still to be copied
		}
	}
}
