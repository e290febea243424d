package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/csr"
	"quintet.dev/quintet/internal/diagnostics/diagnosticstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEnabled(t *testing.T) {
	every := len(list()) - 2 // without those that have to be named
	for flag, want := range map[string]struct {
		count     int
		with, out string
		err       string
	}{
		"*":                                     {count: every},
		"*,-deployment-controller":              {count: every - 1, out: "deployment-controller"},
		"-deployment,*":                         {count: every - 1, out: "deployment-controller"},
		"deployment-controller":                 {count: 1, with: "deployment-controller"},
		"replicaset,namespace-controller":       {count: 2, with: "replicaset-controller"},
		"*,no-such-controller":                  {err: `"no-such-controller"`},
		"-":                                     {err: `""`},
		"-replicaset-controller":                {count: 0},
		"replicaset,-replicaset-controller":     {count: 1, with: "replicaset-controller"},
		"-replicaset-controller,replicaset,*":   {count: every - 1, out: "replicaset-controller"},
		"garbagecollector,node-ipam-controller": {count: 2, with: "garbage-collector-controller"},
		"*,-service-lb-controller,-route":       {count: every},
		"*,selinux-warning-controller":          {err: "not supported"},
		"*,bootstrapsigner,tokencleaner":        {count: every + 2, with: "token-cleaner-controller"},
	} {
		c := Config{Controllers: strings.Split(flag, ",")}
		got, err := c.enabled()
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%s: error %v, want one with %s", flag, err, want.err)
			}
			continue
		}
		has := func(name string) bool { return slices.ContainsFunc(got, func(e entry) bool { return e.name == name }) }
		if err != nil || len(got) != want.count || (want.with != "" && !has(want.with)) ||
			(want.out != "" && has(want.out)) {
			t.Errorf("%s: %d controllers, error %v", flag, len(got), err)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range list() {
		if seen[e.name] {
			t.Errorf("%s is listed twice", e.name)
		}
		seen[e.name] = true
		if e.old != e.name && seen[e.old] {
			t.Errorf("%s is listed twice", e.old)
		}
		seen[e.old] = true
	}
}

func TestFlagsKeepDefaults(t *testing.T) {
	want := DefaultConfig()
	got := DefaultConfig()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	got.AddFlags(fs)
	if err := fs.Parse(nil); err != nil {
		t.Fatal(err)
	}
	if got.CommandLine == nil || got.CommandLine()["secure-port"] != "10257" {
		t.Error("the command line isn't known")
	}
	got.CommandLine = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after no flags:\n%+v\nwant\n%+v", got, want)
	}
	if err := fs.Parse([]string{"--no-such-flag"}); err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("unknown flag: %v", err)
	}
}

func TestSpeaksProtobuf(t *testing.T) {
	for contentType, accepts := range map[string]string{
		"application/vnd.kubernetes.protobuf": "application/vnd.kubernetes.protobuf,application/json",
		"application/json":                    "",
		"":                                    "",
	} {
		c := DefaultConfig()
		c.Client, c.KubeAPIContentType = &rest.Config{Host: "h"}, contentType
		root, err := c.rest()
		if err != nil {
			t.Fatal(err)
		}
		speaker, err := newClients(root, func(t http.RoundTripper) http.RoundTripper { return t }, clock.RealClock{}, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := speaker.config("deployment-controller"); got.ContentType != contentType ||
			got.AcceptContentTypes != accepts || got.QPS != c.KubeAPIQPS {
			t.Errorf("%s: sends %q, accepts %q, %v requests per second", contentType, got.ContentType,
				got.AcceptContentTypes, got.QPS)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for want, flags := range map[string][]string{
		"--kubeconfig is required":     {"--kubeconfig="},
		"--authentication-kubeconfig":  {"--authentication-kubeconfig=" + missing},
		`"nonsense"`:                   {"--controllers=nonsense"},
		"--secure-port 70000":          {"--secure-port=70000"},
		"--kube-api-content-type":      {"--kube-api-content-type=text/plain"},
		"--bind-address":               {"--bind-address=nowhere"},
		"--tls-cert-file":              {"--tls-cert-file=x"},
		"private-key-file go together": {"--tls-private-key-file=x"},
		missing:                        {"--tls-cert-file=" + missing, "--tls-private-key-file=" + missing},
		"--tls-min-version":            {"--tls-min-version=VersionSSL"},
		"--allocate-node-cidrs":        {"--allocate-node-cidrs"},
		"--cluster-cidr":               {"--allocate-node-cidrs", "--cluster-cidr=10.0.0.0"},
		"one of each address family":   {"--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16,10.1.0.0/16"},
		"--node-cidr-mask-size can't": {"--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16,fd00::/48",
			"--node-cidr-mask-size=24"},
		"with --node-cidr-mask-size-ipv4": {"--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16",
			"--node-cidr-mask-size=24", "--node-cidr-mask-size-ipv4=25"},
		"no IPv4 range": {"--allocate-node-cidrs", "--cluster-cidr=fd00::/48",
			"--node-cidr-mask-size-ipv4=25"},
		"no IPv6 range": {"--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16",
			"--node-cidr-mask-size-ipv6=60"},
		"--node-monitor-grace-period": {"--node-monitor-grace-period=1s"},
		"--max-endpoints-per-slice":   {"--max-endpoints-per-slice=0"},
		csr.LegacyUnknownSignerName:   {"--cluster-signing-legacy-unknown-cert-file=x"},
		"--cluster-signing-kubelet-serving": {"--cluster-signing-cert-file=x", "--cluster-signing-key-file=x",
			"--cluster-signing-kubelet-serving-cert-file=y"},
		"lease duration": {"--leader-elect-lease-duration=1s"},
		"--horizontal-pod-autoscaler-sync-period":            {"--horizontal-pod-autoscaler-sync-period=0s"},
		"concurrent-horizontal-pod-autoscaler-syncs must be": {"--concurrent-horizontal-pod-autoscaler-syncs=0"},
		"unrecognized feature gate: Unheard":                 {"--feature-gates=Unheard=true,HPAScaleToZero=true"},
		"--namespace-sync-period":                            {"--namespace-sync-period=0s"},
		"--endpoint-updates-batch-period":                    {"--endpoint-updates-batch-period=-1s"},
		"concurrent-job-syncs must be":                       {"--concurrent-job-syncs=0"},
		`"selinux-warning-controller"`:                       {"--controllers=selinux-warning-controller"},
		`--cloud-provider "aws"`:                             {"--cloud-provider=aws"},
		"--cloud-config":                                     {"--cloud-config=" + missing},
		"--external-cloud-volume-plugin":                     {"--external-cloud-volume-plugin=aws"},
		"The ipam CloudAllocator":                            {"--cidr-allocator-type=CloudAllocator"},
		"--enable-hostpath-provisioner":                      {"--enable-hostpath-provisioner"},
		"--flex-volume-plugin-dir":                           {"--flex-volume-plugin-dir=/"},
		"--emulated-version kube=1.30":                       {"--emulated-version=kube=1.30"},
		"--min-compatibility-version":                        {"--min-compatibility-version=kube=1.20"},
		"needs --leader-elect":                               {"--enable-leader-migration", "--leader-elect=false"},
		"--leader-migration-config": {"--enable-leader-migration",
			"--leader-migration-config=" + missing},
	} {
		c := DefaultConfig()
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.AddFlags(fs)
		if err := fs.Parse(append([]string{"--kubeconfig=k"}, flags...)); err != nil {
			t.Fatal(err)
		}
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", flags, err, want)
		}
	}
}

// TestStops: a manager whose API server doesn't work ends when it is stopped, and leaks nothing.
func TestStops(t *testing.T) {
	asked := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		http.Error(w, "not today", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	c := DefaultConfig()
	c.Client = &rest.Config{Host: server.URL}
	c.LeaderElection.Elect = false
	listener, get := diagnosticstest.Listen(t)
	c.Listener = listener
	c.AllocateNodeCIDRs, c.ClusterCIDR = true, "10.0.0.0/16"
	c.RootCAFile = filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(c.RootCAFile, []byte("ca"), 0o600); err != nil {
		t.Fatal(err)
	}
	manager, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx) }()
	<-asked
	if code, body := get("/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d %s", code, body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after being stopped: %v", err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestTellsOfItself: a manager's health names the controllers that it runs, and its configuration is upstream's, as far
// as it has one.
func TestTellsOfItself(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.Error(w, "not today", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	c := DefaultConfig()
	c.Client = &rest.Config{Host: server.URL}
	c.LeaderElection.Elect = false
	c.Controllers = []string{"ttl-controller", "deployment-controller"}
	c.ServiceClusterIPRange = "10.0.0.0/16,fd00::/108"
	c.Access.AlwaysAllowPaths = []string{"/*"}
	listener, get := diagnosticstest.Listen(t)
	c.Listener = listener
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	manager, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- manager.Run(ctx) }()
	const healthy = "[+]deployment-controller ok\n[+]ttl-controller ok\nhealthz check passed\n"
	var health string
	for deadline := time.Now().Add(time.Minute); health != healthy &&
		time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		_, health = get("/healthz?verbose")
	}
	if health != healthy {
		t.Errorf("health\n%s", health)
	}
	for _, path := range []string{"/livez", "/readyz", "/healthz/ping"} { // as upstream's
		if code, body := get(path); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	var told struct {
		Config struct {
			Kind    string
			Generic struct {
				Controllers      []string
				MinResyncPeriod  string
				LeaderElection   struct{ ResourceName string }
				ClientConnection struct{ QPS float32 }
			}
			NodeIPAMController struct {
				ServiceCIDR, SecondaryServiceCIDR                            string
				NodeCIDRMaskSize, NodeCIDRMaskSizeIPv4, NodeCIDRMaskSizeIPv6 *int
			}
			DeploymentController       struct{ ConcurrentDeploymentSyncs int }
			GarbageCollectorController struct {
				GCIgnoredResources []struct{ Group, Resource string }
			}
			CSRSigningController struct{ ClusterSigningDuration string }
		} `json:"kubecontrollermanager.config.k8s.io"`
	}
	_, text := get("/configz")
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	sizes := &told.Config.NodeIPAMController // are told as they were asked for
	for _, size := range []**int{&sizes.NodeCIDRMaskSize, &sizes.NodeCIDRMaskSizeIPv4, &sizes.NodeCIDRMaskSizeIPv6} {
		if *size == nil || **size != 0 {
			t.Errorf("a mask size that was not configured: %s", text)
		}
		*size = nil
	}
	got := fmt.Sprint(told.Config)
	if want := "{KubeControllerManagerConfiguration {[ttl-controller deployment-controller] 12h0m0s " +
		"{kube-controller-manager} {20}} " +
		"{10.0.0.0/16 fd00::/108 <nil> <nil> <nil>} {5} {[{ events} {events.k8s.io events}]} {8760h0m0s}}"; got != want {
		t.Errorf("configuration\n%s, want\n%s", got, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after being stopped: %v", err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestFlagsOfOthers: a manager starts with what kubeadm, k3s and kind's users give upstream's.
func TestFlagsOfOthers(t *testing.T) {
	for _, flags := range []string{
		"--controllers=*,-horizontal-pod-autoscaler-controller", "--controllers=*,-horizontalpodautoscaling",
		"--controllers=*,-persistentvolume-binder-controller,-persistentvolume-attach-detach-controller",
		"--horizontal-pod-autoscaler-sync-period=10s", "--feature-gates=MaxUnavailableStatefulSet=true,NodeSwap=true",
		"--feature-gates=AllAlpha=false", "--cloud-provider=external", "--pv-recycler-timeout-increment-hostpath=30",
		"--concurrent_rc_syncs=2", "--enable-dynamic-provisioning=false", "--attach-detach-reconcile-sync-period=2m",
		"--disable-attach-detach-reconcile-sync", "--concurrent-resourceclaim-syncs=3", "--emulated-version=1.36",
		"--concurrent-device-taint-eviction-syncs=3", "--controller-start-interval=1s", "--node-sync-period=1s",
		"--flex-volume-plugin-dir=/no/such/directory", "--enable-leader-migration", "--cidr-allocator-type=RangeAllocator",
		"--configure-cloud-routes=false", "--concurrent-service-syncs=2", "--controller-shutdown-timeout=1m",
		"--endpointslice-updates-batch-period=500ms", "--master=https://10.0.0.1:6443",
	} {
		c := DefaultConfig()
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
		c.AddFlags(fs)
		if err := fs.Parse([]string{"--kubeconfig=k", flags}); err != nil {
			t.Errorf("%s: %v", flags, err)
			continue
		}
		if _, err := New(c); err != nil {
			t.Errorf("%s: %v", flags, err)
		}
	}
}
