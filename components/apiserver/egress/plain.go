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

// takePlain takes the proxies out of a configuration that are spoken to without TLS, which the library doesn't know, though its
// validation lets them pass.
func (w *Ways) takePlain(config *apiserver.EgressSelectorConfiguration) error {
	var failed error
	config.EgressSelections = slices.DeleteFunc(config.EgressSelections, func(s apiserver.EgressSelection) bool {
		c := s.Connection
		if c.ProxyProtocol != apiserver.ProtocolHTTPConnect || c.Transport.TCP == nil || c.Transport.TCP.TLSConfig != nil {
			return false
		}
		proxy, err := url.Parse(c.Transport.TCP.URL)
		i := slices.IndexFunc(peers, func(t egressselector.EgressType) bool { return t.String() == strings.ToLower(s.Name) })
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
		err = connect(conn, address)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("proxy %s: %w", proxy, err)
		}
		return conn, nil
	}
}

func connect(conn net.Conn, address string) error {
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address); err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(conn, http.DefaultMaxHeaderBytes))
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	_ = answer.Body.Close() // it has none: what follows is the peer's
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("connecting to %s: %s", address, answer.Status)
	}
	if in.Buffered() > 0 {
		return fmt.Errorf("%s spoke before it was spoken to", address)
	}
	return nil
}
