package verbs

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestDatagramIsAnsweredWithTheClientsAddress(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	srv := &server{text: "me"}
	go func() { _ = srv.udp(conn) }()
	code, out, err := run(t, "", "datagram", conn.LocalAddr().String(), "--from=127.0.0.1:0")
	if code != 0 || err != nil || !strings.HasPrefix(out, "me 127.0.0.1:") {
		t.Errorf("code %d, output %q, error %v", code, out, err)
	}
	source, err := net.ListenPacket("udp", "127.0.0.1:0") // a port that is free, to be used again
	if err != nil {
		t.Fatal(err)
	}
	from := source.LocalAddr().String()
	_ = source.Close()
	_, out, err = run(t, "", "datagram", conn.LocalAddr().String(), "--from="+from)
	if err != nil || out != "me "+from+"\n" {
		t.Errorf("output %q, error %v; want the source %s", out, err, from)
	}
}

func TestDatagramFails(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for args, want := range map[string]int{
		"datagram " + silent.LocalAddr().String() + " --timeout=1ms": 1,
		"datagram":                       2,
		"datagram 127.0.0.1:1 --from=??": 2,
	} {
		if code, _, err := run(t, "", strings.Fields(args)...); code != want || err == nil {
			t.Errorf("%s: code %d, error %v; want %d and an error", args, code, err, want)
		}
	}
}

func TestServerListensOnSeveralAddresses(t *testing.T) {
	first, second := freeAddress(t), freeAddress(t)
	srv := &server{text: "me", exit: make(chan int, 1)}
	if err := srv.listen(map[string]string{"http": first + "," + second}, make(chan error, 1)); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{first, second} {
		if _, out, err := run(t, "", "get", "http://"+address+"/local"); err != nil || out != address+"\n" {
			t.Errorf("%s: %q, %v", address, out, err)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestDrainReadsAll(t *testing.T) {
	short := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("5 are"))
	}))
	t.Cleanup(short.Close)
	whole := httptest.NewServer((&server{}).http())
	t.Cleanup(whole.Close)
	for args, want := range map[string]int{
		whole.URL + "/bytes?n=100000": 0,
		whole.URL + "/bytes?n=some":   1,
		short.URL:                     1,
		"":                            2,
	} {
		code, out, err := run(t, "", append([]string{"drain"}, strings.Fields(args)...)...)
		if took, parseErr := time.ParseDuration(strings.TrimSpace(out)); code != want ||
			(want == 0) != (parseErr == nil && took > 0) {
			t.Errorf("drain %s: code %d, output %q, error %v; want code %d", args, code, out, err, want)
		}
	}
}

func TestGetTrustsAndBears(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out, err := run(t, "", "get", server.URL, "--ca="+ca, "--token="+token); err != nil ||
		out != "Bearer secret" {
		t.Errorf("%q, %v", out, err)
	}
	for want, args := range map[string][]string{
		"certificate":          {"get", server.URL},
		"holds no certificate": {"get", server.URL, "--ca=" + token},
		"--token":              {"get", server.URL, "--token=" + filepath.Join(dir, "none")},
	} {
		if code, _, err := run(t, "", args...); code == 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: code %d, error %v; want %q", args, code, err, want)
		}
	}
}

// respond is a name server with the records of one name.
func respond(query []byte) []byte {
	var message dnsmessage.Message
	if err := message.Unpack(query); err != nil {
		return nil
	}
	message.Response = true
	name := dnsmessage.MustNewName("web.test.")
	header := func(kind dnsmessage.Type) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET, TTL: 5}
	}
	switch question := message.Questions[0]; {
	case question.Name.String() == "2.1.0.10.in-addr.arpa.":
		message.Answers = []dnsmessage.Resource{
			{Header: header(dnsmessage.TypePTR), Body: &dnsmessage.PTRResource{PTR: name}},
		}
	case question.Name != name:
		message.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		message.Answers = []dnsmessage.Resource{
			{Header: header(dnsmessage.TypeA), Body: &dnsmessage.AResource{A: [4]byte{10, 0, 1, 3}}},
			{Header: header(dnsmessage.TypeA), Body: &dnsmessage.AResource{A: [4]byte{10, 0, 1, 2}}},
		}
	case question.Type == dnsmessage.TypeSRV:
		message.Answers = []dnsmessage.Resource{{Header: header(dnsmessage.TypeSRV),
			Body: &dnsmessage.SRVResource{Priority: 0, Weight: 100, Port: 80, Target: name}}}
	case question.Type == dnsmessage.TypeTXT:
		message.Truncated = true
	}
	response, err := message.Pack()
	if err != nil {
		return nil
	}
	return response
}

// nameServer serves respond on UDP and TCP, on one port each.
func nameServer(t *testing.T) (udp, tcp string) {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = packets.Close() })
	go func() {
		query := make([]byte, maxDatagram)
		for {
			n, client, err := packets.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(respond(query[:n]), client)
		}
	}()
	streams := listen(t)
	go func() {
		for {
			conn, err := streams.Accept()
			if err != nil {
				return
			}
			query := make([]byte, maxDatagram)
			if n, err := conn.Read(query); err == nil && n > 2 {
				response := respond(query[2:n])
				_, _ = conn.Write(append([]byte{byte(len(response) >> 8), byte(len(response))}, response...))
			}
			_ = conn.Close()
		}
	}()
	return packets.LocalAddr().String(), streams.Addr().String()
}

func TestLookup(t *testing.T) {
	udp, tcp := nameServer(t)
	for _, test := range []struct {
		args string
		code int
		out  string
	}{
		{args: "web.test A", out: "NOERROR\nweb.test. A 10.0.1.2\nweb.test. A 10.0.1.3\n"},
		{args: "web.test. SRV", out: "NOERROR\nweb.test. SRV 0 100 80 web.test.\n"},
		{args: "web.test AAAA", out: "NOERROR\n"},
		{args: "10.0.1.2 PTR", out: "NOERROR\nweb.test. PTR web.test.\n"},
		{args: "other.test A", out: "NXDOMAIN\n"},
		{args: "web.test TXT", code: 1},
		{args: "web.test BOGUS", code: 2},
		{args: "web.test", code: 2},
	} {
		for _, server := range []string{"--server=" + udp, "--server=" + tcp + " --tcp"} {
			code, out, err := run(t, "", strings.Fields("lookup "+test.args+" "+server)...)
			if code != test.code || out != test.out {
				t.Errorf("%s %s: code %d, output %q, error %v; want %d, %q",
					test.args, server, code, out, err, test.code, test.out)
			}
		}
	}
}

func TestLookupFindsItsServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	for content, want := range map[string]string{
		"search a b\nnameserver 10.96.0.10\nnameserver 10.96.0.11\n": "10.96.0.10:53",
		"nameserver fd00::a\n": "[fd00::a]:53",
		"search a\n":           "",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if server, err := firstNameServer(file); server != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", content, server, err, want)
		}
	}
}

func TestReverseNameOfIPv6(t *testing.T) {
	question, err := newQuestion("fd00::a1", "PTR")
	want := "1.a." + strings.Repeat("0.", 26) + "0.0.d.f.ip6.arpa."
	if err != nil || question.Name.String() != want {
		t.Errorf("%s, %v; want %s", question.Name, err, want)
	}
}
