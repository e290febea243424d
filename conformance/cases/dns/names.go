package dns

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

// resolves waits until a pod's resolver finds these addresses, in any order, by a name.
func resolves(ctx context.Context, t *suite.T, pod, name string, addresses ...string) {
	slices.Sort(addresses)
	attempt := traffic.Try(t, pod, "resolve", name)
	suite.WaitFor(ctx, t, "the addresses of "+name, func(ctx context.Context) ([]string, error) {
		result, err := attempt(ctx)
		if err != nil || !result.OK {
			return []string{result.Text}, err
		}
		found := strings.Fields(result.Text)
		slices.Sort(found)
		return found, nil
	}, Equal(addresses))
}

func service(ctx context.Context, t *suite.T) {
	ip := traffic.Expose(ctx, t, "web").Spec.ClusterIP
	_, zone := startClient(ctx, t)
	for _, name := range []string{"web", "web." + t.Namespace, "web." + t.Namespace + ".svc", "web." + zone + "."} {
		resolves(ctx, t, "client", name, ip)
	}
}

// otherNamespace has a Service of the same name in both namespaces.
func otherNamespace(ctx context.Context, t *suite.T) {
	other := traffic.InNamespace(ctx, t, "team", "other")
	here, there := traffic.Expose(ctx, t, "web").Spec.ClusterIP, traffic.Expose(ctx, other, "web").Spec.ClusterIP
	startClient(ctx, t)
	startClient(ctx, other)
	resolves(ctx, t, "client", "web", here)
	resolves(ctx, other, "client", "web", there)
	resolves(ctx, t, "client", "web."+other.Namespace, there)
}

func headless(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", traffic.Headless)
	pods, _ := startClient(ctx, t, traffic.Server(t, "server-0", "web"), traffic.Server(t, "server-1", "web"))
	resolves(ctx, t, "client", "web", pods["server-0"].Status.PodIP, pods["server-1"].Status.PodIP)
}

func hostname(ctx context.Context, t *suite.T) {
	traffic.Expose(ctx, t, "web", traffic.Headless)
	pods, _ := startClient(ctx, t,
		traffic.Named(traffic.Server(t, "server-0", "web"), "first", "web"), traffic.Server(t, "server-1", "web"))
	resolves(ctx, t, "client", "first.web", pods["server-0"].Status.PodIP)
}

func followsService(ctx context.Context, t *suite.T) {
	ip := traffic.Expose(ctx, t, "web").Spec.ClusterIP
	_, zone := startClient(ctx, t)
	name := "web." + zone
	records(ctx, t, name, addressKind(ip), noError, address(name, ip))
	services := t.Client.CoreV1().Services(t.Namespace)
	t.Must(services.Delete(ctx, "web", metav1.DeleteOptions{}), "delete the Service")
	records(ctx, t, name, addressKind(ip), nxDomain)
	recreated := traffic.Expose(ctx, t, "web").Spec.ClusterIP
	records(ctx, t, name, addressKind(recreated), noError, address(name, recreated))
}
