package server

import (
	"net"
	"os"
	"sync"
	"time"
)

// HTTP/2 flushes often: the headers of a response, its body, each event of a watch, of all the streams on a connection.
// A gathering connection hands what is written to a goroutine that sends it: what comes until that gets to run goes out
// in one system call, and an idle server sends as soon as before.
type coalescingConn struct {
	net.Conn

	mu       sync.Mutex
	taken    sync.Cond // something was sent, or can't be
	pending  []byte
	sending  bool // there is a goroutine that sends
	busy     bool // it does so at this moment
	closing  bool
	deadline time.Time // of sending; told is what the connection knows of it
	told     time.Time
	err      error // of all further writes
}

const (
	// gatherSize is what may wait to be sent, in bytes; a writer waits beyond that.
	gatherSize = 64 << 10
	// gatherLinger is how long a connection that is closed goes on to send what was written before.
	gatherLinger = time.Second
)

// gatherings makes the connections of a listener gathering ones.
type gatherings struct{ net.Listener }

func (l gatherings) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gather(conn), nil
}

func gather(conn net.Conn) *coalescingConn {
	c := &coalescingConn{Conn: conn}
	c.taken.L = &c.mu
	return c
}

var gatherBuffers = sync.Pool{New: func() any { b := make([]byte, 0, gatherSize); return &b }}

// Write takes p; an error of an earlier write may only show now.
func (c *coalescingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.pending) > 0 && len(c.pending)+len(p) > gatherSize {
		c.taken.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.pending == nil {
		c.pending = (*gatherBuffers.Get().(*[]byte))[:0]
	}
	c.pending = append(c.pending, p...)
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return len(p), nil
}

func (c *coalescingConn) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending != nil {
		batch := c.pending
		c.pending = nil
		err := c.tell()
		c.busy = true
		c.mu.Unlock()
		if err == nil {
			_, err = c.Conn.Write(batch)
		}
		gatherBuffers.Put(&batch)
		c.mu.Lock()
		c.busy = false
		if err != nil {
			c.err, c.pending = err, nil
		}
		c.taken.Broadcast()
	}
	c.sending = false
	if c.closing {
		_ = c.Conn.Close()
	}
}

// SetDeadline implements net.Conn.
func (c *coalescingConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// tell passes the deadline on. It is called with c.mu held.
func (c *coalescingConn) tell() error {
	if c.deadline.Equal(c.told) {
		return nil
	}
	c.told = c.deadline
	return c.Conn.SetWriteDeadline(c.deadline)
}

// SetWriteDeadline implements net.Conn. A time that is past, which TLS sets when it ends, forbids new writes, but what
// was written before has its time still. HTTP/2 sets one before each write and takes it away afterwards, which costs a
// timer each: the connection itself is told only of those that find it sending.
func (c *coalescingConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.IsZero() && !time.Now().Before(t) {
		if c.err == nil {
			c.err = os.ErrDeadlineExceeded
		}
		if c.sending {
			t = time.Now().Add(gatherLinger)
		}
	}
	if c.closing {
		return nil
	}
	c.deadline = t
	if !c.busy {
		return nil // the next that is sent will tell
	}
	return c.tell()
}

// Close ends the connection when what was written is sent, but doesn't wait for that.
func (c *coalescingConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = net.ErrClosed
	c.taken.Broadcast()
	if !c.sending {
		return c.Conn.Close()
	}
	c.closing = true
	c.deadline = time.Now().Add(gatherLinger)
	if c.busy {
		_ = c.tell()
	}
	return c.Conn.SetReadDeadline(time.Unix(1, 0)) // readers end at once
}
