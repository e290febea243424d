package kernel

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"testing"
)

var (
	ours   = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	theirs = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

func frame(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestARP(t *testing.T) {
	const request = "ffffffffffff" + "020000000002" + "0806" + "0001080006040001" +
		"020000000002" + "0a000001" + "000000000000" + "0a0000c8"
	q, ok := parse(frame(t, request))
	if !ok || q.target != netip.MustParseAddr("10.0.0.200") || q.from != netip.MustParseAddr("10.0.0.1") ||
		!bytes.Equal(q.mac, theirs) {
		t.Fatalf("got %+v, %v", q, ok)
	}
	const reply = "020000000002" + "020000000001" + "0806" + "0001080006040002" +
		"020000000001" + "0a0000c8" + "020000000002" + "0a000001"
	if got := hex.EncodeToString(answer(q, ours)); got != reply {
		t.Errorf("got  %s\nwant %s", got, reply)
	}
	const gratuitous = "ffffffffffff" + "020000000001" + "0806" + "0001080006040001" +
		"020000000001" + "0a0000c8" + "ffffffffffff" + "0a0000c8"
	if got := hex.EncodeToString(announcement(q.target, ours)); got != gratuitous {
		t.Errorf("got  %s\nwant %s", got, gratuitous)
	}
	if _, ok := parse(frame(t, reply)); ok {
		t.Error("a reply is a query")
	}
}

func TestNeighborDiscovery(t *testing.T) {
	const (
		asker = "fd000000000000000000000000000001"
		lb    = "fd000000000000000000000000000200"
		group = "ff0200000000000000000001ff000200"
		all   = "ff020000000000000000000000000001"
	)
	solicitation := "3333ff000200" + "020000000002" + "86dd" + "60000000" + "0020" + "3aff" + asker + group +
		"87000000" + "00000000" + lb + "0101020000000002"
	q, ok := parse(frame(t, solicitation))
	if !ok || q.target != netip.MustParseAddr("fd00::200") || q.from != netip.MustParseAddr("fd00::1") ||
		!bytes.Equal(q.mac, theirs) {
		t.Fatalf("got %+v, %v", q, ok)
	}
	check := func(got []byte, mac, to, flags string) {
		t.Helper()
		header := mac + "020000000001" + "86dd" + "60000000" + "0020" + "3aff" + lb + to + "8800"
		body := flags + "000000" + lb + "0201020000000001"
		text := hex.EncodeToString(got)
		if text[:len(header)] != header || text[len(header)+4:] != body {
			t.Errorf("got  %s\nwant %s????%s", text, header, body)
		}
		// The sum over the pseudo header and the message with its checksum is all ones.
		sum := append(bytes.Clone(got[22:54]), 0, 0, 0, advertSize, 0, 0, 0, icmpv6)
		if checksum(append(sum, got[54:]...)) != 0 {
			t.Error("the checksum is wrong")
		}
	}
	check(answer(q, ours), "020000000002", asker, "e0")
	check(announcement(q.target, ours), "333300000001", all, "a0")
	q.from = netip.IPv6Unspecified()
	check(answer(q, ours), "333300000001", all, "a0")
	if got := solicitedNode(q.target); got != netip.MustParseAddr("ff02::1:ff00:200") {
		t.Errorf("group %s", got)
	}
	routed := frame(t, solicitation)
	routed[21] = 254
	if _, ok := parse(routed); ok {
		t.Error("a solicitation from elsewhere than the link is a query")
	}
}

// No frame is more than it can be parsed as.
func FuzzParse(f *testing.F) {
	f.Add(arp(arpRequest, ours, netip.MustParseAddr("10.0.0.1"), theirs, netip.MustParseAddr("10.0.0.2")))
	f.Add(advertisement(ours, netip.MustParseAddr("fd00::1"), theirs, netip.MustParseAddr("fd00::2"), 0))
	f.Fuzz(func(t *testing.T, frame []byte) {
		for n := range frame {
			parse(frame[:n])
		}
		if q, ok := parse(frame); ok {
			answer(q, ours)
		}
	})
}
