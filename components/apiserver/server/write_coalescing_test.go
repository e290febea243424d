package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// heldBack counts the writes of a connection, which wait for go.
type heldBack struct {
	net.Conn
	mu     sync.Mutex
	writes int
	hold   chan struct{}
}

func (c *heldBack) Write(p []byte) (int, error) {
	<-c.hold
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func pipe(t *testing.T) (*coalescingConn, *heldBack, net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	c := &heldBack{Conn: here, hold: make(chan struct{})}
	return gather(c), c, there
}

// TestGather: what is written while something is being sent goes out at once, in order.
func TestGather(t *testing.T) {
	g, c, there := pipe(t)
	var want bytes.Buffer
	for i := range 100 {
		part := bytes.Repeat([]byte{byte(i)}, 10)
		want.Write(part)
		if n, err := g.Write(part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	close(c.hold)
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(there, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("got %v, %v", got, err)
	}
	if c.writes > 2 {
		t.Errorf("%d writes", c.writes)
	}
}

// TestGatherWaits: a reader that is slow is waited for.
func TestGatherWaits(t *testing.T) {
	g, c, there := pipe(t)
	written := make(chan error, 1)
	go func() {
		var err error
		for range 10 {
			if _, err = g.Write(make([]byte, gatherSize/2)); err != nil {
				break
			}
		}
		written <- err
	}()
	close(c.hold)
	if n, err := io.ReadFull(there, make([]byte, 5*gatherSize)); err != nil {
		t.Fatal(n, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestGatherCloses: what was written before the end is sent, what comes after is refused.
func TestGatherCloses(t *testing.T) {
	g, c, there := pipe(t)
	if _, err := g.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := g.SetWriteDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte("later")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := g.Read(make([]byte, 1)); err == nil {
		t.Error("there is something to read")
	}
	close(c.hold)
	if got, err := io.ReadAll(there); err != nil || string(got) != "last" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestGatherStalls: a deadline that comes while something is being sent ends that, one that was taken away before does
// not.
func TestGatherStalls(t *testing.T) {
	g, c, there := pipe(t)
	if err := g.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := g.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	close(c.hold)
	if _, err := io.ReadFull(there, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	for stalled := false; !stalled; { // the connection is no longer read
		if err := g.SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := g.Write(make([]byte, gatherSize))
		stalled = errors.Is(err, os.ErrDeadlineExceeded)
		if err != nil && !stalled {
			t.Fatal(err)
		}
	}
}

// TestGatherFails: a failed write is returned by the next one.
func TestGatherFails(t *testing.T) {
	g, c, there := pipe(t)
	close(c.hold)
	there.Close()
	for {
		if _, err := g.Write([]byte("x")); err != nil {
			return
		}
	}
}
