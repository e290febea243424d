package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// window is how much a server may send before it hears of the client again: more than a measurement takes.
const window = 1 << 30

// follow opens so many watches over one connection, and counts their events until ctx ends: in protobuf each has its
// length in front. It reads HTTP/2 frame by frame, and of events nothing but the lengths: what a general client does
// for each delivery, on the same processors, is as much as the server's work that is to be measured.
func follow(ctx context.Context, config *tls.Config, watch *url.URL, number int, begun func(), events func(int)) error {
	config = config.Clone()
	config.NextProtos = []string{http2.NextProtoTLS}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", watch.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	open, err := ask(conn, watch, number)
	if err != nil {
		return err
	}
	framer := http2.NewFramer(conn, bufio.NewReaderSize(conn, 64<<10))
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.SetReuseFrames()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			if ended := open[f.StreamID].add(f.Data()); ended > 0 {
				events(ended)
			}
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "200" {
				return fmt.Errorf("watch: status %s", status)
			}
			begun()
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = framer.WritePing(true, f.Data)
			}
		case *http2.RSTStreamFrame:
			return fmt.Errorf("watch: the server ended it: %v", f.ErrCode)
		case *http2.GoAwayFrame:
			return fmt.Errorf("watch: the server ended the connection: %v", f.ErrCode)
		}
		if err != nil {
			return err
		}
	}
}

// ask sends the requests, and returns what is read of each by its stream.
func ask(conn net.Conn, watch *url.URL, number int) (map[uint32]*frames, error) {
	out := bufio.NewWriter(conn)
	if _, err := out.WriteString(http2.ClientPreface); err != nil {
		return nil, err
	}
	framer := http2.NewFramer(out, nil)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		return nil, err
	}
	if err := framer.WriteWindowUpdate(0, window); err != nil {
		return nil, err
	}
	open := map[uint32]*frames{}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range number {
		block.Reset()
		for _, field := range []hpack.HeaderField{
			{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: watch.Scheme}, {Name: ":authority", Value: watch.Host},
			{Name: ":path", Value: watch.RequestURI()}, {Name: "accept", Value: protobuf + ";stream=watch"},
		} {
			if err := encoder.WriteField(field); err != nil {
				return nil, err
			}
		}
		id := uint32(2*i + 1)
		open[id] = &frames{}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true,
			EndHeaders: true}); err != nil {
			return nil, err
		}
	}
	return open, out.Flush()
}
