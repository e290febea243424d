package verbs

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// lookup sends one query to a name server, without a search path and without a cache. It prints the response code, and
// then the answers, sorted, as NAME TYPE DATA.
func lookup(args []string, s Streams) (int, error) {
	plain, opts, err := options(args, "server", "tcp", "timeout")
	if err != nil {
		return 2, err
	}
	if len(plain) != 2 {
		return 2, fmt.Errorf("usage: lookup NAME TYPE [--server=HOST:PORT] [--tcp] [--timeout=DUR]")
	}
	timeout, err := duration(opts, "timeout", 5*time.Second)
	if err != nil {
		return 2, err
	}
	question, err := newQuestion(plain[0], plain[1])
	if err != nil {
		return 2, err
	}
	server := opts["server"]
	if server == "" {
		if server, err = firstNameServer("/etc/resolv.conf"); err != nil {
			return 1, err
		}
	}
	network := "udp"
	if _, ok := opts["tcp"]; ok {
		network = "tcp"
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	response, err := ask(ctx, network, server, question)
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(s.Out, responseCode(response.RCode))
	lines := make([]string, 0, len(response.Answers))
	for _, answer := range response.Answers {
		lines = append(lines, formatRecord(answer))
	}
	return 0, writeSorted(s.Out, lines)
}

// recordTypes are those that lookup queries.
func recordTypes() map[string]dnsmessage.Type {
	return map[string]dnsmessage.Type{
		"A": dnsmessage.TypeA, "AAAA": dnsmessage.TypeAAAA, "CNAME": dnsmessage.TypeCNAME, "PTR": dnsmessage.TypePTR,
		"SRV": dnsmessage.TypeSRV, "TXT": dnsmessage.TypeTXT,
	}
}

// newQuestion takes a full name, or for PTR also an address.
func newQuestion(name, kind string) (dnsmessage.Question, error) {
	recordType, ok := recordTypes()[kind]
	if !ok {
		return dnsmessage.Question{}, fmt.Errorf("unknown record type %q", kind)
	}
	if ip, err := netip.ParseAddr(name); err == nil && recordType == dnsmessage.TypePTR {
		name = reverseName(ip)
	}
	full, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	if err != nil {
		return dnsmessage.Question{}, fmt.Errorf("name %q: %w", name, err)
	}
	return dnsmessage.Question{Name: full, Type: recordType, Class: dnsmessage.ClassINET}, nil
}

// reverseName returns the name that holds the PTR record of an address.
func reverseName(ip netip.Addr) string {
	var name strings.Builder
	raw := ip.AsSlice()
	for i := len(raw) - 1; i >= 0; i-- {
		if ip.Is4() {
			fmt.Fprintf(&name, "%d.", raw[i])
		} else {
			fmt.Fprintf(&name, "%x.%x.", raw[i]&0xf, raw[i]>>4)
		}
	}
	if ip.Is4() {
		return name.String() + "in-addr.arpa"
	}
	return name.String() + "ip6.arpa"
}

func firstNameServer(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "nameserver" {
			return net.JoinHostPort(fields[1], "53"), nil
		}
	}
	return "", fmt.Errorf("%s names no server", file)
}

// ask sends a query and returns its response.
func ask(ctx context.Context, network, server string, question dnsmessage.Question) (*dnsmessage.Message, error) {
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{question},
	}
	packed, err := query.Pack()
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	exchange := exchangeDatagram
	if network == "tcp" {
		exchange = exchangeStream
	}
	raw, err := exchange(conn, packed)
	if err != nil {
		return nil, err
	}
	var response dnsmessage.Message
	if err := response.Unpack(raw); err != nil {
		return nil, fmt.Errorf("response of %s: %w", server, err)
	}
	switch {
	case response.ID != query.ID || !response.Response:
		return nil, fmt.Errorf("%s answered another question", server)
	case response.Truncated:
		return nil, fmt.Errorf("response of %s is truncated; use --tcp", server)
	}
	return &response, nil
}

func exchangeDatagram(conn net.Conn, query []byte) ([]byte, error) {
	if _, err := conn.Write(query); err != nil {
		return nil, err
	}
	raw := make([]byte, maxDatagram)
	n, err := conn.Read(raw)
	return raw[:n], err
}

// exchangeStream puts the length before each message, as RFC 1035 section 4.2.2 has it.
func exchangeStream(conn net.Conn, query []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	raw := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, raw)
	return raw, err
}

func responseCode(code dnsmessage.RCode) string {
	names := []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"}
	if int(code) < len(names) {
		return names[code]
	}
	return fmt.Sprintf("RCODE%d", code)
}

func formatRecord(record dnsmessage.Resource) string {
	kind, data := strings.TrimPrefix(record.Header.Type.String(), "Type"), ""
	switch body := record.Body.(type) {
	case *dnsmessage.AResource:
		data = netip.AddrFrom4(body.A).String()
	case *dnsmessage.AAAAResource:
		data = netip.AddrFrom16(body.AAAA).String()
	case *dnsmessage.CNAMEResource:
		data = body.CNAME.String()
	case *dnsmessage.PTRResource:
		data = body.PTR.String()
	case *dnsmessage.SRVResource:
		data = fmt.Sprintf("%d %d %d %s", body.Priority, body.Weight, body.Port, body.Target)
	case *dnsmessage.TXTResource:
		data = strings.Join(body.TXT, " ")
	default:
		data = "?"
	}
	return fmt.Sprintf("%s %s %s", record.Header.Name, kind, data)
}
