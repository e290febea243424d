package cloudprovider

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	bridge4, bridge6 = "10.213.77.1", "fd00:77::1"
	pool4, pool6     = "10.213.77.192/26", "fd00:77::f00/120"
	lbCluster        = "10.213.77.200"
	lbLocal          = "10.213.77.201"
	lbCluster6       = "fd00:77::f01"
)

// lan is a host with a bridge, and machines on it, each a network namespace.
type lan struct {
	t      *testing.T
	prefix string
}

func run(t *testing.T, input string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

func newLAN(t *testing.T) *lan {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	l := &lan{t: t, prefix: fmt.Sprintf("quintet-lb-%d-", os.Getpid())}
	l.add("host")
	l.ip("host", "link add br0 address 02:00:00:00:00:01 type bridge") // else it changes with the ports
	l.ip("host", "link set br0 up")
	l.ip("host", "address add "+bridge4+"/24 dev br0")
	l.ip("host", "address add "+bridge6+"/64 dev br0 nodad")
	return l
}

func (l *lan) add(name string) {
	l.t.Helper()
	run(l.t, "", "ip", "netns", "add", l.prefix+name)
	l.t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", l.prefix+name).Run() })
	l.ip(name, "link set lo up")
}

func (l *lan) ip(name, arguments string) string {
	l.t.Helper()
	return run(l.t, "", append([]string{"ip", "-n", l.prefix + name}, strings.Fields(arguments)...)...)
}

// role is a command that runs a role of this test's program on a machine.
func (l *lan) role(name, role string, arguments ...string) *exec.Cmd {
	cmd := exec.Command("ip", "netns", "exec", l.prefix+name, os.Args[0])
	cmd.Env = append(os.Environ(), "CLOUDPROVIDER_TEST_ROLE="+role,
		"CLOUDPROVIDER_TEST_ARGUMENTS="+strings.Join(arguments, " "))
	return cmd
}

// machine adds one with an interface on the bridge.
func (l *lan) machine(name string, number int) {
	l.t.Helper()
	l.add(name)
	l.ip("host", "link add "+name+" type veth peer name eth0 netns "+l.prefix+name)
	l.ip("host", "link set "+name+" master br0 up")
	l.ip(name, fmt.Sprintf("address add 10.213.77.%d/24 dev eth0", number))
	l.ip(name, fmt.Sprintf("address add fd00:77::%d/64 dev eth0 nodad", number))
	l.up(name)
}

func (l *lan) up(name string) {
	l.t.Helper()
	l.ip(name, "link set eth0 up")
	l.ip(name, "route replace default via "+bridge4)
}

// node adds a machine that translates what comes for the load balancers, as kube-proxy does, and forwards the rest.
func (l *lan) node(name string, number int, local bool) {
	l.t.Helper()
	l.machine(name, number)
	run(l.t, fmt.Sprintf(`table inet proxy {
		chain prerouting {
			type nat hook prerouting priority dstnat;
			ip daddr { %s, %s } tcp dport 80 dnat ip to 10.213.77.%d:8080
			ip6 daddr %s tcp dport 80 dnat ip6 to [fd00:77::%d]:8080
		}
	}`, lbCluster, lbLocal, number, lbCluster6, number), "ip", "netns", "exec", l.prefix+name, "nft", "-f", "-")
	run(l.t, "", "ip", "netns", "exec", l.prefix+name, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	l.start(name, "node", name, strconv.FormatBool(local))
}

// start runs a role on a machine until the test ends.
func (l *lan) start(name, role string, arguments ...string) *exec.Cmd {
	l.t.Helper()
	cmd := l.role(name, role, arguments...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// dial has the host connect to an address count times. The answers are a node's name and the client's address each.
func (l *lan) dial(address string, count int) ([]string, error) {
	cmd := l.role("host", "client", address, strconv.Itoa(count))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New(stderr.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// expect waits until connections to an address are answered by just these nodes, which see the host's own address.
func (l *lan) expect(address string, nodes ...string) {
	l.t.Helper()
	host := bridge4
	if netip.MustParseAddr(address).Is6() {
		host = bridge6
	}
	var want []string
	for _, node := range nodes {
		want = append(want, node+" "+host)
	}
	var got []string
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if got, err = l.dial(netip.AddrPortFrom(netip.MustParseAddr(address), 80).String(), 30); err != nil {
			continue
		}
		slices.Sort(got)
		if got = slices.Compact(got); slices.Equal(got, want) {
			return
		}
	}
	l.t.Fatalf("connections to %s: want %v, got %v, %v\n%s%s", address, want, got, err,
		l.ip("lb", "route show"), l.ip("host", "neighbor show"))
}

// session is a connection that stays.
type session struct {
	in   *bufio.Writer
	out  *bufio.Scanner
	node string
}

func (l *lan) session(address string) *session {
	l.t.Helper()
	cmd := l.role("host", "session", address)
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := &session{in: bufio.NewWriter(stdin), out: bufio.NewScanner(stdout)}
	if !s.out.Scan() {
		l.t.Fatal("no connection")
	}
	s.node, _, _ = strings.Cut(s.out.Text(), " ")
	return s
}

func (s *session) alive(word string) bool {
	// A lost connection ends at once, as a node without its state resets it.
	_, _ = s.in.WriteString(word + "\n")
	return s.in.Flush() == nil && s.out.Scan() && s.out.Text() == word
}

func TestPacketsReachHealthyNodes(t *testing.T) {
	l := newLAN(t)
	l.machine("lb", 2)
	l.node("n1", 11, true)
	l.node("n2", 12, false)
	l.node("n3", 13, false)
	provider := l.start("lb", "provider")

	l.expect(lbCluster, "n1", "n2", "n3")
	l.expect(lbLocal, "n1")
	l.expect(lbCluster6, "n1", "n2", "n3")

	// Packets for a port without a Service do not go round between the load balancer and a node.
	before := l.forwarded("lb")
	if answers, err := l.dial(lbCluster+":81", 1); err == nil {
		t.Errorf("port without a Service: %v", answers)
	}
	if n := l.forwarded("lb") - before; n > 20 {
		t.Errorf("%d packets were forwarded for one connection", n)
	}

	// Connections to a node outlive other nodes.
	var staying []*session
	for range 30 {
		if s := l.session(lbCluster + ":80"); s.node != "n2" {
			staying = append(staying, s)
		}
	}
	l.ip("n2", "link set eth0 down")
	l.expect(lbCluster, "n1", "n3")
	l.expect(lbCluster6, "n1", "n3")
	for i, s := range staying {
		if !s.alive(fmt.Sprint("word", i)) {
			t.Errorf("a connection to %s is lost with n2", s.node)
		}
	}
	l.up("n2")
	l.ip("n2", "address replace fd00:77::12/64 dev eth0 nodad")
	l.expect(lbCluster, "n1", "n2", "n3")

	// A new machine with the same task is found in spite of what the host remembers.
	_ = provider.Process.Kill()
	_ = provider.Wait()
	run(t, "", "ip", "netns", "delete", l.prefix+"lb")
	l.waitForLink("host", "lb")
	l.machine("lb", 2)
	provider = l.start("lb", "provider")
	l.expect(lbCluster, "n1", "n2", "n3")

	// An orderly end leaves nothing in the kernel.
	if routes := l.ip("lb", "route show proto 82"); routes == "" {
		t.Error("there are no routes")
	}
	if err := provider.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := provider.Wait(); err != nil {
		t.Errorf("the provider ended with %v", err)
	}
	if routes := l.ip("lb", "route show proto 82") + l.ip("lb", "-6 route show proto 82"); routes != "" {
		t.Errorf("routes were left:\n%s", routes)
	}
}

// waitForLink waits until the end of a pair whose other end is gone is gone, too.
func (l *lan) waitForLink(name, link string) {
	l.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if exec.Command("ip", "-n", l.prefix+name, "link", "show", link).Run() != nil {
			return
		}
	}
	l.t.Fatalf("link %s does not go", link)
}

// forwarded is how many packets of IPv4 a machine forwarded.
func (l *lan) forwarded(name string) int {
	l.t.Helper()
	lines := strings.Split(run(l.t, "", "ip", "netns", "exec", l.prefix+name, "cat", "/proc/net/snmp"), "\n")
	names, values := strings.Fields(lines[0]), strings.Fields(lines[1])
	n, err := strconv.Atoi(values[slices.Index(names, "ForwDatagrams")])
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}
