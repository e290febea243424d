// Package envtest tests an operator with controller-runtime's envtest on what `quintet assets` writes. It needs no
// Docker.
package envtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"quintet.dev/quintet/e2e/operator"
)

// waitTimeout bounds every wait for a condition: long enough for a busy machine.
const waitTimeout = time.Minute

// quintet is the program, all by itself in a folder, as `go install` puts it.
var quintet string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "quintet-envtest-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		quintet = filepath.Join(dir, "quintet")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", quintet,
			"quintet.dev/quintet/cmd/quintet").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// world is a control plane of envtest as a test sees it.
type world struct {
	gomega.Gomega
	env    *envtest.Environment
	scheme *runtime.Scheme
	client client.Client // of an administrator
}

// start starts a control plane from the assets that quintet writes when it is given args. It ends with the test. Where
// KUBEBUILDER_ASSETS is set, envtest takes those: so the tests can be tried on others.
func start(t *testing.T, env *envtest.Environment, args ...string) *world {
	t.Helper()
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyTimeout(waitTimeout)
	g.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	assets := t.TempDir()
	out, err := exec.CommandContext(t.Context(), quintet,
		append([]string{"assets", assets}, args...)...).CombinedOutput()
	g.Expect(err).NotTo(gomega.HaveOccurred(), string(out))
	g.Expect(string(out)).To(gomega.Equal("export KUBEBUILDER_ASSETS='" + assets + "'\n"))

	w := &world{Gomega: g, env: env, scheme: runtime.NewScheme()}
	g.Expect(scheme.AddToScheme(w.scheme)).To(gomega.Succeed())
	g.Expect(operator.AddToScheme(w.scheme)).To(gomega.Succeed())
	log := &strings.Builder{}
	env.BinaryAssetsDirectory, env.Scheme = assets, w.scheme
	env.ControlPlane.GetAPIServer().Err = log
	began := time.Now()
	rest, err := env.Start()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Logf("the control plane is there after %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() || strings.Contains(log.String(), "panic") {
			t.Errorf("the log of kube-apiserver:\n%s", log)
		}
	})
	w.client, err = client.New(rest, client.Options{Scheme: w.scheme})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	return w
}

// run runs the operator until the test ends.
func (w *world) run(t *testing.T) {
	t.Helper()
	hooks := w.env.WebhookInstallOptions
	mgr, err := ctrl.NewManager(w.env.Config, ctrl.Options{
		Scheme:     w.scheme,
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // several tests, one process
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
		}),
	})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	w.Expect(operator.Setup(mgr, operator.Options{Webhooks: len(hooks.Paths) > 0, Image: "httpd"})).To(gomega.Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(gomega.BeTrue())
	if len(hooks.Paths) > 0 {
		w.Eventually(func() error { return mgr.GetWebhookServer().StartedChecker()(nil) }).Should(gomega.Succeed())
	}
}

// get reads an object as it is now.
func get[T client.Object](w *world, key client.ObjectKey, obj T) func() (T, error) {
	return func() (T, error) { return obj, w.client.Get(context.Background(), key, obj) }
}
