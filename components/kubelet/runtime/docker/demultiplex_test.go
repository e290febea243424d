package docker

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/moby/moby/api/pkg/stdcopy"
)

// frame is what the engine sends of one write.
func frame(stream stdcopy.StdType, text string) string {
	n := len(text)
	return string([]byte{byte(stream), 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + text
}

func TestDemultiplex(t *testing.T) {
	long := strings.Repeat("long ", 20_000)
	sent := frame(stdcopy.Stdout, "a") + frame(stdcopy.Stderr, "b") + frame(stdcopy.Stdout, "") +
		frame(stdcopy.Stdout, long) + frame(stdcopy.Stdin, "c")
	for name, c := range map[string]struct{ sent, stdout, stderr, err string }{
		"whole":          {sent: sent, stdout: "a" + long + "c", stderr: "b"},
		"header cut off": {sent: sent + "\x01\x00", stdout: "a" + long + "c", stderr: "b"},
		"frame cut off":  {sent: sent + frame(stdcopy.Stderr, "gone")[:10], stdout: "a" + long + "c", stderr: "b"},
		"no frame":       {sent: sent + frame(stdcopy.Stderr, "gone")[:8], stdout: "a" + long + "c", stderr: "b"},
		"engine's error": {sent: frame(stdcopy.Systemerr, "no space"), err: "no space"},
		"unknown":        {sent: frame(9, "?"), err: "unknown stream: 9"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := demultiplex(&stdout, &stderr, iotest.HalfReader(strings.NewReader(c.sent)))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if stdout.String() != c.stdout || stderr.String() != c.stderr {
				t.Errorf("%d bytes of stdout and %q, want %d and %q", stdout.Len(), stderr.String(), len(c.stdout), c.stderr)
			}
		})
	}
}

func TestDemultiplexFails(t *testing.T) {
	broken := io.ErrUnexpectedEOF // as of a connection that was cut
	for _, received := range []string{"", frame(stdcopy.Stdout, "a"), "\x01", frame(stdcopy.Stdout, "a")[:8]} {
		stream := io.MultiReader(strings.NewReader(received), iotest.ErrReader(broken))
		if err := demultiplex(io.Discard, io.Discard, stream); !errors.Is(err, broken) {
			t.Errorf("error of the stream after %q: %v", received, err)
		}
	}
	reader, writer := io.Pipe()
	reader.CloseWithError(broken)
	if err := demultiplex(writer, io.Discard, strings.NewReader(frame(stdcopy.Stdout, "a"))); !errors.Is(err, broken) {
		t.Errorf("error of the writer: %v", err)
	}
}

// TestDemultiplexKeepsLittle reads frames as most are without new memory for each.
func TestDemultiplexKeepsLittle(t *testing.T) {
	sent := strings.Repeat(frame(stdcopy.Stdout, strings.Repeat("x", 100)), 1000)
	allocations := testing.AllocsPerRun(10, func() {
		if err := demultiplex(io.Discard, io.Discard, strings.NewReader(sent)); err != nil {
			t.Error(err)
		}
	})
	if allocations > 5 {
		t.Errorf("%v allocations for 1000 frames", allocations)
	}
}
