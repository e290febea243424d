package bench

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiName is the name of the Service of the API server.
const apiName = "kubernetes.default.svc.cluster.local"

// firstUse times the phases of time-to-k8s (https://github.com/tstromberg/time-to-k8s) in one run: each begins where
// the one before ended.
func (n *networkRig) firstUse(ctx context.Context) ([]Measure, error) {
	begin := time.Now()
	last := begin
	var out []Measure
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"command `quintet up`, two nodes", n.up},
		{"→ API answering", eventually(n.apiAnswers)},
		{"→ Service kubernetes answering", eventually(n.kubernetesAnswers)},
		{"→ DNS Service answering", eventually(n.dnsAnswers)},
		{"→ app running", n.runApp},
		{"→ DNS answering from the app", eventually(n.resolveInApp)},
	} {
		if err := phase.run(ctx); err != nil {
			return out, fmt.Errorf("%s: %w", phase.name, err)
		}
		now := time.Now()
		out = append(out, Measure{Name: phase.name, Value: now.Sub(last).Seconds(), Unit: "s"})
		last = now
	}
	took := last.Sub(begin)
	containers := len(n.cluster.Members())
	empty, err := engineTime(ctx, n.name, containers)
	return append(out, Measure{Name: "time-to-k8s, all phases", Value: took.Seconds(), Unit: "s",
		Limit: empty.Seconds(), Against: fmt.Sprintf("%d empty containers, all at once", containers),
		Aim: "≤ 4 s, or 2x of empty containers"}), err
}

// eventually tries until that succeeds.
func eventually(try func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, changeTimeout)
		defer cancel()
		for {
			if err := try(ctx); err == nil || ctx.Err() != nil {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (n *networkRig) apiAnswers(ctx context.Context) error {
	return n.api.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// kubernetesAnswers sends a request without TLS, which the API server answers in the same way.
func (n *networkRig) kubernetesAnswers(ctx context.Context) error {
	answer, err := n.askService(ctx, metav1.NamespaceDefault, "kubernetes", []byte("GET / HTTP/1.0\r\n\r\n"), len("HTTP/"))
	if err == nil && string(answer) != "HTTP/" {
		err = fmt.Errorf("unexpected answer %q", answer)
	}
	return err
}

// dnsAnswers queries the Service of cluster DNS over TCP.
func (n *networkRig) dnsAnswers(ctx context.Context) error {
	query, err := overTCP(apiName)
	if err != nil {
		return err
	}
	const prefix, header = 2, 12
	answer, err := n.askService(ctx, metav1.NamespaceSystem, "kube-dns", query, prefix+header)
	if err != nil {
		return err
	}
	return resolved(answer[min(prefix, len(answer)):])
}

// overTCP is a query for the addresses of a name, with its length before it (RFC 1035, 4.2.2).
func overTCP(name string) ([]byte, error) {
	of, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, err
	}
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 1, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: of, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	return append([]byte{byte(len(packed) >> 8), byte(len(packed))}, packed...), err
}

// resolved returns an error unless a message begins as one that says that the name exists.
func resolved(message []byte) error {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err == nil && (!header.Response || header.RCode != dnsmessage.RCodeSuccess) {
		err = fmt.Errorf("DNS answered %v", header.RCode)
	}
	return err
}

// askService sends a request from the first node to the first TCP port of a Service's cluster IP, and returns the first
// bytes of the answer.
func (n *networkRig) askService(ctx context.Context, namespace, name string, request []byte, size int) ([]byte, error) {
	service, err := n.api.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%d && cat >&3 && head --bytes=%d <&3",
		service.Spec.ClusterIP, service.Spec.Ports[0].Port, size)
	const askTimeout = "5" // seconds
	result, err := n.cluster.Node(1).Exec(ctx, []string{"timeout", askTimeout, "bash", "-c", script},
		bytes.NewReader(request))
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("service %s: %s", name, strings.TrimSpace(string(result.Stderr)))
	}
	return result.Stdout, err
}

// runApp starts the first pod of the user.
func (n *networkRig) runApp(ctx context.Context) error {
	_, err := createToRunning(ctx, n.api, "app")
	return err
}

func (n *networkRig) resolveInApp(ctx context.Context) error {
	_, err := n.exec(ctx, "app", "testimage", "resolve", apiName)
	return err
}
