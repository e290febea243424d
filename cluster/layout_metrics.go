package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	registration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"quintet.dev/quintet/cluster/internal/addons"
	"quintet.dev/quintet/cluster/internal/backend"
)

const (
	metricsUser = "system:metrics-server"
	metricsConf = "metrics-server.conf"
)

// metricsServer asks kubelets, whose certificates the cluster's authority signed, with its own client certificate.
func (l *layout) metricsServer(name string) (backend.Member, *files) {
	file := l.files(name)
	f := newFiles()
	f.add("pki/ca.crt", l.ids.cluster.Cert, nil)
	hosts := append([]string{addons.MetricsServerHost, "localhost", "127.0.0.1", name, l.addressing.Host(name)},
		l.addressing.IPs(name)...)
	pair, err := l.ids.cluster.Serving(addons.MetricsServer, hosts...)
	f.pair("pki/metrics-server", pair, err)
	f.kubeconfig(metricsConf, l, l.apiURL(MetricsServer), metricsUser)
	return backend.Member{Program: "metrics-server", Args: []string{
		"--kubeconfig=" + file(metricsConf),
		"--authentication-kubeconfig=" + file(metricsConf), "--authorization-kubeconfig=" + file(metricsConf),
		"--authentication-tolerate-lookup-failure=true", // it may be there before the API server
		"--bind-address=" + l.bind(MetricsServer, name), "--secure-port=" + l.port(name, metricsPort),
		"--tls-cert-file=" + file("pki/metrics-server.crt"), "--tls-private-key-file=" + file("pki/metrics-server.key"),
		"--kubelet-certificate-authority=" + file("pki/ca.crt"),
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname", "--kubelet-use-node-status-port",
		"--metric-resolution=15s",
	}}, f
}

// metricsOptions tell where the API server finds the metrics server.
func (l *layout) metricsOptions() addons.MetricsServerOptions {
	name := l.config.names(MetricsServer)[0]
	return addons.MetricsServerOptions{
		User: metricsUser, Addresses: l.addressing.IPs(name), Port: int32(l.addressing.Port(name, metricsPort)),
		Authority: l.ids.cluster.Cert,
	}
}

// registerMetrics has the API server pass on what is for the metrics server.
func (s *start) registerMetrics(ctx context.Context) error {
	client, err := registration.NewForConfig(s.cluster.rest)
	if err != nil {
		return err
	}
	return addons.RegisterMetrics(ctx, client, s.layout.metricsOptions())
}

// forgetMetrics removes what leads to the metrics server of the cluster that this one goes on from.
func (s *start) forgetMetrics(ctx context.Context, client kubernetes.Interface) error {
	apis, err := registration.NewForConfig(s.cluster.rest)
	if err != nil {
		return err
	}
	return addons.ForgetMetrics(ctx, client, apis)
}

func (s *start) metricsReady(ctx context.Context) error {
	return s.cluster.WaitMetrics(ctx)
}

// WaitMetrics returns when the API server finds that metrics.k8s.io is served. Usage is known after two scrapes of a
// node.
func (c *Cluster) WaitMetrics(ctx context.Context) error {
	client, err := registration.NewForConfig(c.rest)
	if err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		service, err := client.APIServices().Get(ctx, addons.MetricsAPIService, metav1.GetOptions{})
		if err != nil {
			return err
		}
		available := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
		if available == nil || available.Status != apiregistrationv1.ConditionTrue {
			return fmt.Errorf("APIService %s is not available: %+v", service.Name, available)
		}
		return nil
	})
}
