// Package egresstest is what proxies of tests have in common.
package egresstest

import (
	"io"
	"net"
	"net/http"
)

// Tunnel joins a client that asked by CONNECT with the server that it asked for, until one of them ends.
func Tunnel(w http.ResponseWriter, r *http.Request) {
	to, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { _, _ = io.Copy(to, buffered) }()
	_, _ = io.Copy(conn, to)
}
