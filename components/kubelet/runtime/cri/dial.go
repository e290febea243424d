package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// portForwardProtocol is spoken by the streams of PortForward.
const portForwardProtocol = "portforward.k8s.io"

// Dial implements runtime.Streams: the engine forwards the connection, so that servers that listen on the pod's
// loopback only are reached too. That the port is closed may show only when the connection is used.
func (e *Engine) Dial(ctx context.Context, sandboxID string, port int32) (_ net.Conn, err error) {
	defer e.observe("port_forward", &err)()
	answer, err := e.runtime.PortForward(ctx, &cri.PortForwardRequest{PodSandboxId: sandboxID, Port: []int32{port}})
	if err != nil {
		return nil, mark(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, answer.GetUrl(), nil)
	if err != nil {
		return nil, fmt.Errorf("the container engine forwards at %q: %w", answer.GetUrl(), err)
	}
	connection, _, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, request,
		portForwardProtocol)
	if err != nil {
		return nil, err
	}
	forwarded, err := open(connection, port)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return forwarded, nil
}

// open makes the two streams of one forwarded connection: that of errors first, as engines want it.
func open(connection httpstream.Connection, port int32) (*forwarded, error) {
	headers := http.Header{}
	headers.Set(v1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(v1.PortForwardRequestIDHeader, "0")
	headers.Set(v1.StreamType, v1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = failures.Close() // nothing is written to it
	headers.Set(v1.StreamType, v1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	f := &forwarded{connection: connection, data: data, failure: make(chan error, 1), port: port}
	go func() { // ends with the connection
		message, err := io.ReadAll(failures)
		if err == nil && len(message) > 0 {
			err = errors.New(string(message))
		}
		f.failure <- err
	}()
	return f, nil
}

// forwarded is a connection that the engine forwards.
type forwarded struct {
	connection httpstream.Connection
	data       httpstream.Stream
	failure    chan error // gets one value, when the engine has no more to say
	port       int32
}

// Read implements net.Conn. At its end it tells why there was nothing to connect to.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.data.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	select {
	case failure := <-f.failure:
		f.failure <- failure
		if failure != nil {
			return 0, failure
		}
	case <-f.connection.CloseChan():
	}
	return 0, io.EOF
}

// Write implements net.Conn.
func (f *forwarded) Write(p []byte) (int, error) { return f.data.Write(p) }

// CloseWrite tells the other side that nothing more comes.
func (f *forwarded) CloseWrite() error { return f.data.Close() }

// Close implements net.Conn.
func (f *forwarded) Close() error {
	_ = f.data.Reset() // what was not sent is given up
	return f.connection.Close()
}

// LocalAddr implements net.Conn.
func (f *forwarded) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (f *forwarded) RemoteAddr() net.Addr { return &net.TCPAddr{Port: int(f.port)} }

// errNoDeadline tells that a forwarded connection has no deadlines.
var errNoDeadline = errors.New("a forwarded connection has no deadlines; close it instead")

// SetDeadline implements net.Conn.
func (f *forwarded) SetDeadline(time.Time) error { return errNoDeadline }

// SetReadDeadline implements net.Conn.
func (f *forwarded) SetReadDeadline(time.Time) error { return errNoDeadline }

// SetWriteDeadline implements net.Conn.
func (f *forwarded) SetWriteDeadline(time.Time) error { return errNoDeadline }
