package egress

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"
)

// konnectivity is a proxy that speaks konnectivity's protocol, and connects to everything itself.
type konnectivity struct {
	client.UnimplementedProxyServiceServer
	asked atomic.Int64
}

// Proxy serves one stream, which carries one connection.
func (k *konnectivity) Proxy(stream client.ProxyService_ProxyServer) error {
	const id = 7
	var sending sync.Mutex // as several may send
	send := func(p *client.Packet) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(p)
	}
	var to net.Conn
	defer func() {
		if to != nil {
			_ = to.Close()
		}
	}()
	for {
		p, err := stream.Recv()
		if err != nil {
			return nil
		}
		switch p.Type {
		case client.PacketType_DIAL_REQ:
			k.asked.Add(1)
			answer := &client.DialResponse{ConnectID: id, Random: p.GetDialRequest().Random}
			if to, err = net.Dial(p.GetDialRequest().Protocol, p.GetDialRequest().Address); err != nil {
				answer.Error = err.Error()
			}
			if err := send(&client.Packet{Type: client.PacketType_DIAL_RSP,
				Payload: &client.Packet_DialResponse{DialResponse: answer}}); err != nil || to == nil {
				return err
			}
			go func() {
				_, _ = io.Copy(packets(func(data []byte) error {
					return send(&client.Packet{Type: client.PacketType_DATA,
						Payload: &client.Packet_Data{Data: &client.Data{ConnectID: id, Data: data}}})
				}), to)
				_ = send(&client.Packet{Type: client.PacketType_CLOSE_RSP,
					Payload: &client.Packet_CloseResponse{CloseResponse: &client.CloseResponse{ConnectID: id}}})
			}()
		case client.PacketType_DATA:
			if _, err := to.Write(p.GetData().Data); err != nil {
				return err
			}
		case client.PacketType_CLOSE_REQ:
			_ = to.Close()
		}
	}
}

// packets is a writer of what is sent.
type packets func(data []byte) error

func (p packets) Write(data []byte) (int, error) { return len(data), p(append([]byte(nil), data...)) }

// TestKonnectivity: nodes are reached through a proxy of konnectivity, which tells of those that it can't reach.
func TestKonnectivity(t *testing.T) {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat("hello ", 10_000))
	}))
	defer behind.Close()
	socket := filepath.Join(t.TempDir(), "konnectivity.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	proxy, server := &konnectivity{}, grpc.NewServer()
	client.RegisterProxyServiceServer(server, proxy)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	ways, err := load(t, "- {name: cluster, connection: {proxyProtocol: GRPC, transport: {uds: {udsName: "+socket+"}}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: ways.Cluster(), DisableKeepAlives: true}
	for i := range int64(3) { // each with a stream of its own
		got, err := (&http.Client{Transport: transport}).Get(behind.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil || len(body) != 60_000 || proxy.asked.Load() != i+1 {
			t.Errorf("%d: %d bytes, %v, by %d connections", i, len(body), err, proxy.asked.Load())
		}
	}
	if conn, err := ways.Cluster()(t.Context(), "tcp", "127.0.0.1:1"); err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("where nobody is: %v, %v", conn, err)
	}
}
