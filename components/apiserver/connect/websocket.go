package connect

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// streamMessages sends what comes from a reader as messages, after an empty one: in the subprotocol that the client
// requests, as bytes (binary.k8s.io, which is also the default) or as text (base64.binary.k8s.io). It closes the
// reader, as soon as the client is gone.
func streamMessages(w http.ResponseWriter, r *http.Request, from io.ReadCloser) {
	protocols := wsstream.NewDefaultReaderProtocols()
	websocket.Server{
		Handshake: func(config *websocket.Config, _ *http.Request) error {
			for _, name := range config.Protocol {
				if _, known := protocols[name]; known {
					config.Protocol = []string{name}
					return nil
				}
			}
			if len(config.Protocol) > 0 {
				return fmt.Errorf("none of the protocols %v is spoken", config.Protocol)
			}
			return nil
		},
		Handler: func(ws *websocket.Conn) {
			defer func() { _ = ws.Close() }()
			go func() {
				wsstream.IgnoreReceives(ws, 0) // until the client, or we, close it
				_ = from.Close()
			}()
			name := ""
			if chosen := ws.Config().Protocol; len(chosen) > 0 {
				name = chosen[0]
			}
			_ = sendAll(ws, from, protocols[name].Binary)
		},
	}.ServeHTTP(w, r)
}

func sendAll(ws *websocket.Conn, from io.Reader, binary bool) error {
	send := func(part []byte) error {
		if binary {
			return websocket.Message.Send(ws, part)
		}
		return websocket.Message.Send(ws, base64.StdEncoding.EncodeToString(part))
	}
	if err := send(nil); err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
