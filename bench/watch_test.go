package bench

import (
	"encoding/binary"
	"testing"
)

// TestFrames cuts a stream of frames at every place.
func TestFrames(t *testing.T) {
	var stream []byte
	for _, size := range []uint32{3, 300, 1} {
		stream = append(binary.BigEndian.AppendUint32(stream, size), make([]byte, size)...)
	}
	for cut := range stream {
		var f frames
		if n := f.add(stream[:cut]) + f.add(stream[cut:]); n != 3 || f.left != 0 || len(f.head) != 0 {
			t.Fatalf("cut at %d: %d frames, %+v", cut, n, f)
		}
	}
	var f frames
	if n := f.add(stream[:len(stream)-1]); n != 2 || f.left != 1 {
		t.Errorf("a frame that isn't whole: %d, %+v", n, f)
	}
}
