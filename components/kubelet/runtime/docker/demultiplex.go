package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/api/pkg/stdcopy"
)

// Sizes of the frames in which the engine sends the two streams of a container.
const (
	frameHeader = 8       // the stream's number, three zeros and the size of what follows
	keptFrame   = 2 << 10 // the largest buffer that is kept for the next frame
)

// demultiplex copies the frames of a stream until it ends. A frame that is cut off is dropped. The stream of a
// container that writes nothing holds a header only, where stdcopy.StdCopy holds 40 KiB: with 100 pods, a third of the
// kubelet's live heap.
func demultiplex(stdout, stderr io.Writer, stream io.Reader) error {
	header, buffer := make([]byte, frameHeader), []byte(nil)
	for {
		if err := fill(header, stream); err != nil {
			return withoutEnd(err)
		}
		size := int(binary.BigEndian.Uint32(header[4:]))
		if cap(buffer) < size {
			buffer = make([]byte, max(size, min(2*size, keptFrame)))
		}
		frame := buffer[:size]
		if err := fill(frame, stream); err != nil {
			return withoutEnd(err)
		}
		var err error
		switch stdcopy.StdType(header[0]) {
		case stdcopy.Stdin, stdcopy.Stdout:
			_, err = stdout.Write(frame)
		case stdcopy.Stderr:
			_, err = stderr.Write(frame)
		case stdcopy.Systemerr:
			err = fmt.Errorf("error from the engine in the stream: %s", frame)
		default:
			err = fmt.Errorf("frame of an unknown stream: %d", header[0])
		}
		if err != nil {
			return err
		}
		if cap(buffer) > keptFrame {
			buffer = nil
		}
	}
}

// fill reads a buffer full. Other than io.ReadFull, it tells a stream that ended, io.EOF, from a connection that broke.
func fill(buffer []byte, stream io.Reader) error {
	for len(buffer) > 0 {
		n, err := stream.Read(buffer)
		buffer = buffer[n:]
		if err != nil && len(buffer) > 0 {
			return err
		}
	}
	return nil
}

// withoutEnd is err unless it tells that a stream has ended.
func withoutEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
