package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// takePlain takes the proxies out of a configuration that are spoken to without TLS, which the library doesn't know,
// though its validation lets them pass.
func (w *Dialers) takePlain(config *apiserver.EgressSelectorConfiguration) error {
	var failed error
	config.EgressSelections = slices.DeleteFunc(config.EgressSelections, func(s apiserver.EgressSelection) bool {
		c := s.Connection
		if c.ProxyProtocol != apiserver.ProtocolHTTPConnect || c.Transport.TCP == nil ||
			c.Transport.TCP.TLSConfig != nil {
			return false
		}
		proxy, err := url.Parse(c.Transport.TCP.URL)
		i := slices.IndexFunc(peers,
			func(t egressselector.EgressType) bool { return t.String() == strings.ToLower(s.Name) })
		switch {
		case err != nil:
			failed = err
		case i < 0:
			failed = fmt.Errorf("unrecognized service name %s", s.Name)
		default:
			w.dials[peers[i]] = connectVia(proxy.Host)
		}
		return true
	})
	return failed
}

// connectTimeout bounds what a proxy takes to connect.
const connectTimeout = 30 * time.Second

// connectVia asks the proxy at an address by CONNECT.
func connectVia(proxy string) Dial {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxy)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		ahead, err := connect(conn, address)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("proxy %s: %w", proxy, err)
		}
		return &joined{Conn: conn, ahead: ahead}, nil
	}
}

// joined is a connection of which something was read already.
type joined struct {
	net.Conn
	ahead []byte // belongs to Read
}

func (j *joined) Read(p []byte) (int, error) {
	if len(j.ahead) == 0 {
		return j.Conn.Read(p)
	}
	n := copy(p, j.ahead)
	j.ahead = j.ahead[n:]
	return n, nil
}

// connect returns what the peer has said by the time that the proxy says that it is there: some servers speak first, as
// those of gRPC do.
func connect(conn net.Conn, address string) (ahead []byte, err error) {
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address); err != nil {
		return nil, err
	}
	in := bufio.NewReader(io.LimitReader(conn, http.DefaultMaxHeaderBytes))
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close() // it has none: what follows is the peer's
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("connecting to %s: %s", address, answer.Status)
	}
	return in.Peek(in.Buffered())
}
