// Manager is the operator as a program for a pod: it finds its cluster by the pod's service account, elects a leader,
// and serves webhooks, metrics and probes.
package main

import (
	"flag"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"quintet.dev/quintet/e2e/operator"
)

// options are the flags.
type options struct {
	image, certs  string
	leaseDuration time.Duration
	renewDeadline time.Duration
	retryPeriod   time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.image, "server-image", "", "image of the web server")
	flag.StringVar(&o.certs, "cert-dir", "/certs", "folder with tls.crt and tls.key")
	flag.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second, "how long a silent leader keeps its lease")
	flag.DurationVar(&o.renewDeadline, "renew-deadline", 10*time.Second, "how long a leader tries to renew its lease")
	flag.DurationVar(&o.retryPeriod, "retry-period", 2*time.Second, "how often the lease is tried")
	flag.Parse()
	ctrl.SetLogger(klog.NewKlogr())
	if err := run(o); err != nil {
		klog.ErrorS(err, "Failed to run the operator")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

func run(o options) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	types := runtime.NewScheme()
	if err := scheme.AddToScheme(types); err != nil {
		return err
	}
	if err := operator.AddToScheme(types); err != nil {
		return err
	}
	identity, err := os.Hostname()
	if err != nil {
		return err
	}
	klog.InfoS("Starting", "pod", identity, "server", config.Host)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: types,
		Metrics: server.Options{
			BindAddress: ":8443", SecureServing: true, CertDir: o.certs,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		WebhookServer:                 webhook.NewServer(webhook.Options{Port: 9443, CertDir: o.certs}),
		HealthProbeBindAddress:        ":8081",
		LeaderElection:                true,
		LeaderElectionID:              "website-operator",
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 &o.renewDeadline,
		RetryPeriod:                   &o.retryPeriod,
	})
	if err != nil {
		return err
	}
	if err := operator.Setup(mgr, operator.Options{Webhooks: true, Image: o.image}); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
