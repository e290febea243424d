package packets

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/netip"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/internal/netnstest"
)

// Chunks of SCTP (https://www.rfc-editor.org/rfc/rfc9260).
const (
	sctpInit, sctpInitAck = 1, 2
	sctpClientPort        = 40000
	sctpClientTag         = 7
)

// An association with a Service begins, on the same node and on another one: the endpoint gets the client's chunk at
// its own port, and the client the answer from the Service's. The packets are made here, as not all kernels have SCTP.
func TestSCTP(t *testing.T) {
	c := newCluster(t)
	c.serve(t, v1.ProtocolSCTP, unchanged, c.a)
	for _, endpoint := range []*pod{c.a, c.c} {
		c.move(t, v1.ProtocolSCTP, endpoint)
		tag := uint32(endpoint.name[0]) // tells endpoints apart
		arrived := listenSCTP(t, endpoint, tag)
		if !associate(t, c.b, tag) {
			t.Errorf("to pod %s: no answer from the Service", endpoint.name)
			continue
		}
		if got := <-arrived; got.source != c.b.ips[0] || got.port != targetPort {
			t.Errorf("pod %s: a chunk comes from %s to port %d, want %s and %d", endpoint.name, got.source, got.port,
				c.b.ips[0], targetPort)
		}
	}
}

type arrival struct {
	source netip.Addr
	port   uint16
}

// listenSCTP answers requests of associations with a tag, and tells the first.
func listenSCTP(t *testing.T, p *pod, tag uint32) <-chan arrival {
	t.Helper()
	conn := openSCTP(t, p)
	arrived := make(chan arrival, 1)
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := conn.ReadFromIP(buffer)
			if err != nil {
				return
			}
			if n < 20 || buffer[12] != sctpInit {
				continue
			}
			source, destination := binary.BigEndian.Uint16(buffer), binary.BigEndian.Uint16(buffer[2:])
			address, _ := netip.AddrFromSlice(from.IP.To4())
			select {
			case arrived <- arrival{address, destination}:
			default:
			}
			client := binary.BigEndian.Uint32(buffer[16:])
			_, _ = conn.WriteToIP(sctpPacket(destination, source, client, sctpInitAck, tag), from)
		}
	}()
	return arrived
}

// associate requests an association with the Service until the endpoint with the tag answers, from another port each
// time: the first packets may come before the rules.
func associate(t *testing.T, from *pod, tag uint32) bool {
	t.Helper()
	conn := openSCTP(t, from)
	to, buffer := clusterIP(0), make([]byte, 512)
	port := uint16(sctpClientPort + 100*tag)
	for deadline := time.Now().Add(netnstest.AnswerTimeout); time.Now().Before(deadline); port++ {
		packet := sctpPacket(port, to.Port(), 0, sctpInit, sctpClientTag)
		if _, err := conn.WriteToIP(packet, &net.IPAddr{IP: to.Addr().AsSlice()}); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		n, sender, err := conn.ReadFromIP(buffer)
		if err == nil && n >= 20 && sender.IP.Equal(to.Addr().AsSlice()) &&
			binary.BigEndian.Uint16(buffer) == to.Port() && binary.BigEndian.Uint16(buffer[2:]) == port &&
			binary.BigEndian.Uint32(buffer[4:]) == sctpClientTag && binary.BigEndian.Uint32(buffer[16:]) == tag {
			return true
		}
	}
	return false
}

func openSCTP(t *testing.T, p *pod) (conn *net.IPConn) {
	t.Helper()
	if err := netnstest.In(p.namespace, func() (err error) {
		conn, err = net.ListenIP("ip4:132", &net.IPAddr{IP: p.ips[0].AsSlice()})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// sctpPacket has the chunk that requests an association, or the one that answers it, with the tag of its sender.
func sctpPacket(from, to uint16, tag uint32, chunk byte, own uint32) []byte {
	packet := make([]byte, 32)
	binary.BigEndian.PutUint16(packet, from)
	binary.BigEndian.PutUint16(packet[2:], to)
	binary.BigEndian.PutUint32(packet[4:], tag)
	copy(packet[12:], []byte{chunk, 0, 0, 20})
	binary.BigEndian.PutUint32(packet[16:], own)
	copy(packet[20:], []byte{0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1})
	binary.LittleEndian.PutUint32(packet[8:], crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli)))
	return packet
}
