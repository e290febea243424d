package cloudprovider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestMain plays a role on a machine of a lan, if the environment names one.
func TestMain(m *testing.M) {
	roles := map[string]func([]string) error{
		"node": playNode, "client": playClient, "session": playSession, "provider": playProvider,
	}
	play, ok := roles[os.Getenv("CLOUDPROVIDER_TEST_ROLE")]
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(strings.Fields(os.Getenv("CLOUDPROVIDER_TEST_ARGUMENTS"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// playNode is a node with its kube-proxy and a pod that returns its node and the source address of its clients.
func playNode(arguments []string) error {
	name, local := arguments[0], arguments[1] == "true"
	check := func(port string, healthy bool) {
		_ = http.ListenAndServe(":"+port, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !healthy {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
	}
	go check("10256", true)
	go check("31000", local)
	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			fmt.Fprintf(conn, "%s %s\n", name, host)
			_, _ = io.Copy(conn, conn)
		}()
	}
}

func playClient(arguments []string) error {
	count, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	for range count {
		conn, err := net.DialTimeout("tcp", arguments[0], 4*time.Second)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(4 * time.Second))
		line, err := bufio.NewReader(conn).ReadString('\n')
		_ = conn.Close()
		if err != nil {
			return err
		}
		fmt.Print(line)
	}
	return nil
}

func playSession(arguments []string) error {
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(conn, os.Stdin) }()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

func playProvider([]string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config := NewConfig()
	config.AddressPools = []string{pool4, pool6}
	cluster := loadBalanced("cluster", lbCluster)
	cluster.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	cluster.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: lbCluster6}}
	local := loadBalanced("local", lbLocal)
	local.Spec.ExternalTrafficPolicy, local.Spec.HealthCheckNodePort = v1.ServiceExternalTrafficPolicyLocal, 31000
	config.Client = fake.NewClientset(cluster, local,
		readyNode("n1", "10.213.77.11", "fd00:77::11"), readyNode("n2", "10.213.77.12", "fd00:77::12"),
		readyNode("n3", "10.213.77.13", "fd00:77::13"))
	p, err := New(*config)
	if err != nil {
		return err
	}
	if err := p.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func loadBalanced(name, ip string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, LoadBalancerIP: ip, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			Ports: []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP}},
		},
	}
}

func readyNode(name string, ips ...string) *v1.Node {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
	for _, ip := range ips {
		node.Status.Addresses = append(node.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return node
}
