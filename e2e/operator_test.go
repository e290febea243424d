package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/internal/certs"
)

const (
	operatorImage = "quintet-e2e/website-operator:test"
	operatorSpace = "website-system"
	operatorName  = "website-operator"
)

// overlay is what a user adds to an operator's manifests: certificates, and a client of the metrics.
const overlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [config, scraper.yaml]
secretGenerator:
- {name: website-certs, namespace: website-system, type: kubernetes.io/tls, files: [tls.crt, tls.key, ca.crt]}
patches:
- target: {kind: (Mutating|Validating)WebhookConfiguration}
  patch: |-
    - {op: add, path: /webhooks/0/clientConfig/caBundle, value: %s}
`

// website is a manifest.
func website(name, host, more string) string {
	return fmt.Sprintf("apiVersion: example.com/v1\nkind: Website\nmetadata: {namespace: %s, name: %s}\n"+
		"spec: {host: %s, page: '<p>%s'%s}\n", space, name, host, name, more)
}

// deployed is an operator in a cluster.
type deployed struct {
	*world
	*kubectl
}

// TestOperator deploys an operator as its author would: an image, manifests, kubectl.
func TestOperator(t *testing.T) {
	var dir string
	built := make(chan error, 1)
	go func() {
		var err error
		dir, err = buildPrograms(t, "./operator/manager", "./operator/httpd", "quintet.dev/quintet/cmd/quintet")
		built <- err
	}()
	w := start(t, cluster.WithNodes(2))
	w.must(<-built, "build the operator")
	o := &deployed{world: w, kubectl: w.kubectlFor(dir)}
	o.buildImage(dir)
	o.deploy()

	o.admitsAndDefaults()
	o.runsWhatIsAskedFor()
	o.hasNoMoreRightsThanItNeeds()
	o.showsMetrics()
	o.survivesItsLeader()
	o.cleansUpBeforeDeletion()
}

// buildImage builds the operator's image and loads it into the nodes.
func (o *deployed) buildImage(dir string) {
	o.t.Helper()
	context := o.t.TempDir()
	for _, program := range []string{"manager", "httpd"} {
		o.must(os.Link(filepath.Join(dir, program), filepath.Join(context, program)), "add %s", program)
	}
	docker(o.t, "build", "--quiet", "--tag", operatorImage, "--file", "operator/Dockerfile", context)
	o.t.Cleanup(func() { docker(o.t, "image", "rm", "--force", operatorImage) })
	o.must(o.LoadImage(o.t.Context(), operatorImage), "load the image")
}

// deploy applies the manifests with certificates of the test and waits until both replicas are ready.
func (o *deployed) deploy() {
	t := o.t
	t.Helper()
	authority, err := certs.NewAuthority("website-operator")
	o.must(err, "make an authority")
	pair, err := authority.Serving(operatorName,
		"website-webhook.website-system.svc", "website-metrics.website-system.svc")
	o.must(err, "make a serving certificate")
	scraper, err := os.ReadFile("operator/scraper.yaml")
	o.must(err, "read the manifest of the client")
	dir := t.TempDir()
	o.must(os.CopyFS(filepath.Join(dir, "config"), os.DirFS("operator/config")), "copy the manifests")
	for name, content := range map[string][]byte{
		"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": authority.Cert, "scraper.yaml": scraper,
		"kustomization.yaml": fmt.Appendf(nil, overlay, base64.StdEncoding.EncodeToString(authority.Cert)),
	} {
		o.must(os.WriteFile(filepath.Join(dir, name), content, 0o600), "write %s", name)
	}
	o.run("apply", "-k", dir)
	o.run("--namespace", operatorSpace, "rollout", "status", "deployment/"+operatorName,
		"--timeout="+waitTimeout.String())
	o.run("--namespace", operatorSpace, "wait", "--for=condition=Ready", "pod/scraper",
		"--timeout="+waitTimeout.String())
	o.run("wait", "--for=condition=Established", "crd/websites.example.com", "--timeout="+waitTimeout.String())
}

// apply returns a function that applies a manifest, for Eventually.
func (o *deployed) apply(manifest string) func() (string, error) {
	return func() (string, error) { return o.try(manifest, "apply", "-f", "-") }
}

func (o *deployed) admitsAndDefaults() {
	o.t.Helper()
	o.Eventually(o.apply(website("home", "www", ""))).Should(ContainSubstring("website.example.com/home created"))
	replicas := o.run("get", "website", "home", "--output=jsonpath={.spec.replicas}")
	o.Expect(replicas).To(Equal("2"), "the webhook fills in")

	denied := func() error {
		_, err := o.try(website("second", "www", ""), "create", "--dry-run=server", "-f", "-")
		return err
	}
	const refusal = `Error from server (Forbidden): error when creating "STDIN": ` +
		`admission webhook "validate.websites.example.com" denied the request: host www belongs to default/home`
	o.Eventually(denied).Should(MatchError(ContainSubstring(refusal)))
	out, err := o.try(website("idle", "idle", ", replicas: 0"), "create", "--dry-run=server", "-f", "-")
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(out).To(ContainSubstring("website.example.com/idle created (server dry run)"))
}

func (o *deployed) runsWhatIsAskedFor() {
	o.t.Helper()
	o.run("wait", "--for=condition=Ready", "website/home", "--timeout="+waitTimeout.String())
	o.Expect(o.run("get", "site", "home", "--no-headers")).To(MatchRegexp(`^home +www +True\n$`))
	o.Eventually(o.fromPod("http://home.default.svc/")).Should(Equal("<p>home"))
	o.run("patch", "website", "home", "--type=merge", `--patch={"spec":{"replicas":3}}`)
	o.Eventually(o.running("home")).Should(Equal(3))
	o.Eventually(o.trying("get", "website", "home", "--output=jsonpath={.status.conditions[0].message}")).
		Should(Equal("3 of 3 replicas are ready"))
}

// running returns a function that counts the ready pods of a website.
func (o *deployed) running(site string) func() (int, error) {
	return func() (int, error) {
		selected := metav1.ListOptions{LabelSelector: "website=" + site}
		pods, err := o.client.CoreV1().Pods(space).List(o.t.Context(), selected)
		if err != nil {
			return 0, err
		}
		n := 0
		for _, p := range pods.Items {
			if ready(p) {
				n++
			}
		}
		return n, nil
	}
}

// fromPod returns a function that gets a URL from a pod.
func (o *deployed) fromPod(url string, options ...string) func() (string, error) {
	return o.trying(append([]string{"--namespace", operatorSpace, "exec", "scraper", "--",
		"/usr/local/bin/testimage", "get", url, "--timeout=5s"}, options...)...)
}

func (o *deployed) hasNoMoreRightsThanItNeeds() {
	o.t.Helper()
	may := func(verb, resource string) string {
		const account = "system:serviceaccount:website-system:website-operator"
		answer, _ := o.try("", "auth", "can-i", verb, resource, "--as="+account) // a no is an error
		return strings.TrimSpace(answer)
	}
	o.Expect(may("list", "websites.example.com")).To(Equal("yes"))
	o.Expect(may("delete", "websites.example.com")).To(Equal("no"))
	o.Expect(may("list", "secrets")).To(Equal("no"))
	for _, p := range o.operators() {
		log := o.run("--namespace", operatorSpace, "logs", p.Name)
		o.Expect(log).To(ContainSubstring("Starting"))
		o.Expect(log).NotTo(ContainSubstring("forbidden"))
	}
}

func (o *deployed) showsMetrics() {
	o.t.Helper()
	const (
		url     = "https://website-metrics.website-system.svc:8443/metrics"
		account = "/var/run/secrets/kubernetes.io/serviceaccount/"
		ca      = "--ca=/certs/ca.crt"
		token   = "--token=" + account + "token"
	)
	o.Eventually(o.fromPod(url, ca, token)).Should(
		MatchRegexp(`controller_runtime_reconcile_total\{controller="website",result="success"\} [1-9]`),
		"from the leader")
	_, err := o.fromPod(url, ca)()
	o.Expect(err).To(MatchError(ContainSubstring("401 Unauthorized")), "without a token")
	o.Eventually(o.fromPod("https://kubernetes.default.svc/version", "--ca="+account+"ca.crt", token)).
		Should(ContainSubstring(`"major": "1"`), "the API by its name")
}

// operators are the operator's pods.
func (o *deployed) operators() []corev1.Pod {
	o.t.Helper()
	pods, err := o.client.CoreV1().Pods(operatorSpace).List(o.t.Context(), metav1.ListOptions{
		LabelSelector: "control-plane=" + operatorName,
	})
	o.must(err, "list the operator's pods")
	return pods.Items
}

// lease is what the replicas agree on; leader is the pod that holds it.
func (o *deployed) lease() (*coordinationv1.Lease, error) {
	return o.client.CoordinationV1().Leases(operatorSpace).Get(o.t.Context(), operatorName, metav1.GetOptions{})
}

func (o *deployed) leader() (string, error) {
	lease, err := o.lease()
	if err != nil {
		return "", err
	}
	pod, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	return pod, nil
}

// survivesItsLeader kills the leader's process, so that it can't give its lease back, and deletes its pod, so that
// another one leads.
func (o *deployed) survivesItsLeader() {
	t := o.t
	t.Helper()
	before, err := o.lease()
	o.must(err, "get the lease")
	name, _, _ := strings.Cut(*before.Spec.HolderIdentity, "_")
	pod, err := o.client.CoreV1().Pods(operatorSpace).Get(t.Context(), name, metav1.GetOptions{})
	o.must(err, "get the leader %s", name)
	kill := "docker kill $(docker ps --quiet --filter label=io.kubernetes.container.name=manager " +
		"--filter label=io.kubernetes.pod.name=" + name + ")"
	result, err := o.Member(pod.Spec.NodeName).Exec(t.Context(), []string{"sh", "-c", kill}, nil)
	o.must(err, "kill the leader")
	o.Expect(result.Code).To(BeZero(), "%s", result.Stderr)
	o.run("--namespace", operatorSpace, "delete", "pod", name, "--force", "--wait=false")

	o.Eventually(o.leader).ShouldNot(Or(BeEmpty(), Equal(name)), "another pod leads")
	after, err := o.lease()
	o.must(err, "get the lease")
	o.Expect(*after.Spec.LeaseTransitions).To(BeNumerically(">", ptr.Deref(before.Spec.LeaseTransitions, 0)))
	o.Eventually(o.apply(website("later", "later",
		", replicas: 1"))).Should(ContainSubstring("website.example.com/later"))
	o.run("wait", "--for=condition=Ready", "website/later", "--timeout="+waitTimeout.String())
	o.run("--namespace", operatorSpace, "rollout", "status", "deployment/"+operatorName,
		"--timeout="+waitTimeout.String())
}

// cleansUpBeforeDeletion deletes a website while no operator runs: it stays until one has removed its host.
func (o *deployed) cleansUpBeforeDeletion() {
	t := o.t
	t.Helper()
	scale := func(replicas int) {
		o.run("--namespace", operatorSpace, "scale", "deployment/"+operatorName, fmt.Sprintf("--replicas=%d", replicas))
	}
	hosts := o.trying("get", "configmap", "hosts", "--output=jsonpath={.data}")
	scale(0)
	o.Eventually(o.operators).Should(BeEmpty())
	o.run("delete", "website", "home", "--wait=false")
	o.Expect(o.run("get", "website", "home", "--output=jsonpath={.metadata.deletionTimestamp}")).NotTo(BeEmpty())
	o.Expect(hosts()).To(Equal(`{"later":"default.later","www":"default.home"}`))

	scale(2)
	o.run("wait", "--for=delete", "website/home", "--timeout="+waitTimeout.String())
	o.Expect(hosts()).To(Equal(`{"later":"default.later"}`))
	o.Eventually(o.trying("get", "pods", "--selector=website=home", "--output=name")).Should(BeEmpty())
	o.Eventually(o.trying("get", "deployment,service,configmap", "home", "--ignore-not-found", "--output=name")).
		Should(BeEmpty(), "what it owned is collected")
	o.Expect(o.running("later")()).To(Equal(1), "another website goes on")
}
