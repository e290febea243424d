package handlers

import (
	"context"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"quintet.dev/quintet/components/apiserver/codec"
)

// overWebSocket sends what feed produces as messages, one for each event: text for JSON, else binary, without the
// length that goes before it in other streams.
func (s *watchStream) overWebSocket(ctx context.Context, feed func(context.Context, outlet)) {
	websocket.Handler(func(ws *websocket.Conn) {
		defer func() { _ = ws.Close() }()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			wsstream.IgnoreReceives(ws, 0) // until the client, or we, close it
			cancel()
		}()
		feed(ctx, outlet{single: true, expire: ws.SetWriteDeadline, send: func(event []byte) error {
			switch s.choice.Media {
			case codec.JSON:
				return websocket.Message.Send(ws, string(event))
			case codec.CBOR:
				return websocket.Message.Send(ws, event)
			}
			return websocket.Message.Send(ws, event[codec.FrameLength:])
		}})
	}).ServeHTTP(s.w, s.r)
}
