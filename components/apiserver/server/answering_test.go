package server

import (
	"net"
	"net/http"
	"testing"
)

// TestAnswering: a connection has something to do from when it is asked until it waits for more, is closed or is taken.
func TestAnswering(t *testing.T) {
	var a answering
	first, second := net.Pipe()
	for i, step := range []struct {
		conn  net.Conn
		state http.ConnState
		busy  bool
	}{
		{first, http.StateNew, false}, {first, http.StateActive, true}, {first, http.StateIdle, false},
		{first, http.StateActive, true},
		{second, http.StateActive, true}, {first, http.StateIdle, true}, {second, http.StateClosed, false},
		{first, http.StateActive, true}, {first, http.StateHijacked, false},
	} {
		a.note(step.conn, step.state)
		if a.any() != step.busy {
			t.Errorf("step %d: busy %v", i, !step.busy)
		}
	}
	for conn := range a.conns.Range {
		t.Errorf("%v is still known", conn)
	}
}
