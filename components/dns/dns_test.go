package dns

import (
	"net"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
)

// start serves a Corefile on a free port of the loopback and returns its address.
func start(t *testing.T, corefile string) (string, error) {
	t.Helper()
	Use()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	instance, err := caddy.Start(caddy.CaddyfileInput{
		Contents: []byte(strings.ReplaceAll(corefile, ":PORT", ":"+port)), Filepath: "Corefile", ServerTypeName: "dns",
	})
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		if err := instance.Stop(); err != nil {
			t.Error(err)
		}
		instance.Wait()
	})
	return net.JoinHostPort("127.0.0.1", port), nil
}

func TestPluginsAnswer(t *testing.T) {
	server, err := start(t, `.:PORT {
		bind 127.0.0.1
		errors
		log
		cache 30
		loadbalance
		rewrite name alias.test known.test
		hosts {
			10.0.0.1 known.test
		}
		template ANY ANY other.test {
			rcode NXDOMAIN
		}
	}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"udp", "tcp"} {
		client := &dns.Client{Net: network}
		for name, want := range map[string]int{"known.test.": dns.RcodeSuccess, "alias.test.": dns.RcodeSuccess,
			"other.test.": dns.RcodeNameError} {
			answer, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), server)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Rcode != want || want == dns.RcodeSuccess && len(answer.Answer) == 0 {
				t.Errorf("%s over %s: %v", name, network, answer)
			}
		}
	}
}

func TestUnknownPluginIsNamed(t *testing.T) {
	for _, plugin := range []string{"route53", "nonsense"} {
		if _, err := start(t, ".:PORT {\n"+plugin+"\n}"); err == nil || !strings.Contains(err.Error(), plugin) {
			t.Errorf("%s: %v", plugin, err)
		}
	}
}
