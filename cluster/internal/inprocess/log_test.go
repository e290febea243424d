package inprocess

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestLogBuffer: a log that grows without end is kept from the start of a line on, and a follower misses nothing else.
func TestLogBuffer(t *testing.T) {
	var log logBuffer
	line := strings.Repeat("x", 1000)
	const lines = 3 * maxLog / 1000
	for i := range lines {
		fmt.Fprintf(&log, "%d %s\n", i, line)
		if len(log.bytes) > maxLog {
			t.Fatalf("%d bytes are kept", len(log.bytes))
		}
	}
	var out bytes.Buffer
	if err := log.copy(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	kept := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(kept) < maxLog/2/1010 {
		t.Errorf("only %d lines are kept", len(kept))
	}
	for i, got := range kept {
		if want := fmt.Sprintf("%d %s", lines-len(kept)+i, line); got != want {
			t.Fatalf("line %d is %.20q..., want %.20q...", i, got, want)
		}
	}
}
