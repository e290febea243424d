package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"quintet.dev/quintet/internal/certs"
)

// TestStalledPeersAreLetGo: a client of HTTP/2 that has room for all of an answer, but stops to take anything from its
// connection, holds its handler no longer than it takes to find out.
func TestStalledPeersAreLetGo(t *testing.T) {
	ended := make(chan error, 1)
	s := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<16)
		for {
			if _, err := w.Write(chunk); err != nil {
				ended <- err
				return
			}
		}
	}, withHTTP2(t), func(c *Config) { c.RequestTimeout = time.Hour }) // it is not by this that it ends
	s.http.HTTP2.SendPingTimeout, s.http.HTTP2.PingTimeout = time.Second, time.Second
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	raw, err := net.Dial("tcp", s.config.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	requestWithin(t, conn, "/api/v1/pods", 1<<31-1)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the answer was sent")
		}
	case <-time.After(time.Minute):
		t.Error("the handler still writes")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// withHTTP2 serves HTTP/2 alone.
func withHTTP2(t *testing.T) func(*Config) {
	t.Helper()
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Serving("localhost", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}}
	}
}

// requestWithin sends a request on a new connection of HTTP/2, with room for so many bytes of an answer, and reads
// nothing.
func requestWithin(t *testing.T, conn io.Writer, path string, room uint32) {
	t.Helper()
	var fields bytes.Buffer
	encoder := hpack.NewEncoder(&fields)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"},
		{":path", path}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	all := bufio.NewWriterSize(conn, 1<<12) // sent at once, so that the server hasn't given up before it is asked
	framer := http2.NewFramer(all, nil)
	for _, send := range []func() error{
		func() error { _, err := io.WriteString(all, http2.ClientPreface); return err },
		func() error {
			return framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: room})
		},
		func() error { return framer.WriteWindowUpdate(0, 1<<30) },
		func() error {
			return framer.WriteHeaders(
				http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields.Bytes(), EndStream: true, EndHeaders: true})
		},
		all.Flush,
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
}
