package apiserver_test

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	hooksv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/internal/certs"
)

// hooks is a server of webhooks; answer serves what comes to the path.
type hooks struct {
	server *httptest.Server
	mu     sync.Mutex
	seen   []string // "OPERATION resource/subresource name"
	answer map[string]func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse)
}

func newHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{answer: map[string]func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse){}}
	h.server = httptest.NewTLSServer(h)
	t.Cleanup(h.server.Close)
	return h
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := review.Request
	what := request.Resource.Resource
	if request.SubResource != "" {
		what += "/" + request.SubResource
	}
	h.mu.Lock()
	h.seen = append(h.seen, string(request.Operation)+" "+what+" "+request.Name)
	answer := h.answer[strings.TrimPrefix(r.URL.Path, "/")]
	h.mu.Unlock()
	review.Request = nil
	review.Response = &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	if answer != nil {
		answer(request, review.Response)
	}
	_ = json.NewEncoder(w).Encode(review)
}

// calls returns, and forgets, what was asked.
func (h *hooks) calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen
	h.seen = nil
	return seen
}

func (h *hooks) at(path string) hooksv1.WebhookClientConfig {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	return hooksv1.WebhookClientConfig{URL: ptr.To(h.server.URL + "/" + path), CABundle: ca}
}

func on(resources ...string) []hooksv1.RuleWithOperations {
	return []hooksv1.RuleWithOperations{{
		Operations: []hooksv1.OperationType{hooksv1.OperationAll},
		Rule:       hooksv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources},
	}}
}

func validating(name string, at hooksv1.WebhookClientConfig, resources ...string) hooksv1.ValidatingWebhook {
	return hooksv1.ValidatingWebhook{
		Name: name + ".test.example.com", ClientConfig: at, Rules: on(resources...),
		AdmissionReviewVersions: []string{"v1"},
		SideEffects:             ptr.To(hooksv1.SideEffectClassNone), FailurePolicy: ptr.To(hooksv1.Fail),
	}
}

func mutating(name string, at hooksv1.WebhookClientConfig, resources ...string) hooksv1.MutatingWebhook {
	return hooksv1.MutatingWebhook{
		Name: name + ".test.example.com", ClientConfig: at, Rules: on(resources...),
		AdmissionReviewVersions: []string{"v1"},
		SideEffects:             ptr.To(hooksv1.SideEffectClassNone),
	}
}

// install returns when the webhooks are asked: admission learns of them by watching.
func install(t *testing.T, c kubernetes.Interface, list ...hooksv1.ValidatingWebhook) {
	t.Helper()
	marker := validating("installed", nowhere(), "leases")
	config := &hooksv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "test"},
		Webhooks: append(list, marker)}
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), config,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitInstalled(t, c, marker.Name)
}

// nowhere is where a webhook can't be reached.
func nowhere() hooksv1.WebhookClientConfig {
	return hooksv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")}
}

func waitInstalled(t *testing.T, c kubernetes.Interface, marker string) {
	t.Helper()
	eventually(t, "the webhooks are known", func() bool {
		_, err := c.CoordinationV1().Leases("default").Create(t.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "marker"}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), marker)
	})
}

func installMutating(t *testing.T, c kubernetes.Interface, list ...hooksv1.MutatingWebhook) {
	t.Helper()
	marker := mutating("installed", nowhere(), "leases")
	config := &hooksv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "test"},
		Webhooks: append(list, marker)}
	if _, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), config,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitInstalled(t, c, marker.Name)
}

// labelled is a webhook's selector, and what it selects.
func labelled(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"case": name}}
}

func configMapFor(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelled(name).MatchLabels},
		Data: map[string]string{"a": "b"}}
}

func patchOf(text string) func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse) {
	return func(_ *admissionv1.AdmissionRequest, r *admissionv1.AdmissionResponse) {
		r.PatchType, r.Patch = ptr.To(admissionv1.PatchTypeJSONPatch), []byte(text)
	}
}

// TestWebhooksDecide shows what clients get of what a validating webhook says, or fails to say.
func TestWebhooksDecide(t *testing.T) {
	f, h := start(t), newHooks(t)
	c := f.client(t)
	h.answer["deny"] = func(r *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
		a.Allowed, a.Result = false, &metav1.Status{Message: "not " + r.Name, Code: http.StatusTeapot}
	}
	h.answer["warn"] = func(_ *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) {
		a.Warnings = []string{"mind the gap"}
	}
	h.answer["other"] = func(_ *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) { a.UID = "x" }
	const nobody = "127.0.0.1:1" // refuses connections
	away := hooksv1.WebhookClientConfig{URL: ptr.To("https://" + nobody + "/x")}
	untrusted := hooksv1.WebhookClientConfig{URL: ptr.To(h.server.URL + "/x")}
	unserved := hooksv1.WebhookClientConfig{Service: &hooksv1.ServiceReference{Namespace: "default", Name: "none"}}
	calling := `failed calling webhook "away.test.example.com": failed to call webhook: Post "https://` + nobody +
		`/x?timeout=10s": dial tcp ` + nobody + ": connect: connection refused"
	cases := []struct {
		name   string
		at     hooksv1.WebhookClientConfig
		ignore bool
		change func(*hooksv1.ValidatingWebhook)
		dryRun bool
		want   string // of the error, "" for none
		code   int32
	}{
		{name: "allow", at: h.at("")},
		{name: "deny", at: h.at("deny"), want: `admission webhook "deny.test.example.com" denied the request: not deny`,
			code: http.StatusTeapot},
		{name: "warn", at: h.at("warn")},
		{name: "other", at: h.at("other"), want: "received invalid webhook response: expected response.uid=",
			code: http.StatusInternalServerError},
		{name: "away", at: away, want: "Internal error occurred: " + calling, code: http.StatusInternalServerError},
		{name: "away-ignored", at: away, ignore: true},
		{name: "untrusted", at: untrusted, want: "certificate signed by unknown authority",
			code: http.StatusInternalServerError},
		{name: "unserved", at: unserved, want: `service "none" not found`, code: http.StatusInternalServerError},
		{name: "elsewhere", at: h.at("deny"),
			change: func(w *hooksv1.ValidatingWebhook) { w.NamespaceSelector = labelled("other") }},
		{name: "condition", at: h.at("deny"), change: func(w *hooksv1.ValidatingWebhook) {
			w.MatchConditions = []hooksv1.MatchCondition{{Name: "not", Expression: `object.data.a == "c"`}}
		}},
		{name: "condition-fails", at: h.at("deny"), change: func(w *hooksv1.ValidatingWebhook) {
			w.MatchConditions = []hooksv1.MatchCondition{{Name: "none", Expression: `object.data.none == "c"`}}
		}, want: `no such key: none`, code: http.StatusForbidden},
		{name: "dry", at: h.at("deny"), dryRun: true, want: "denied the request: not dry", code: http.StatusTeapot},
	}
	var list []hooksv1.ValidatingWebhook
	for _, tt := range cases {
		hook := validating(tt.name, tt.at, "configmaps")
		hook.ObjectSelector = labelled(tt.name)
		if tt.ignore {
			hook.FailurePolicy = ptr.To(hooksv1.Ignore)
		}
		if tt.change != nil {
			tt.change(&hook)
		}
		list = append(list, hook)
	}
	install(t, c, list...)
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			told := &warnings{}
			config := f.as("admin")
			config.WarningHandler = told
			options := metav1.CreateOptions{}
			if tt.dryRun {
				options.DryRun = []string{metav1.DryRunAll}
			}
			_, err := f.clientOf(t, config).CoreV1().ConfigMaps("default").Create(t.Context(), configMapFor(tt.name),
				options)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code != tt.code {
				t.Errorf("code %d, want %d", status.Status().Code, tt.code)
			}
			if tt.name == "warn" && !slices.Equal(told.texts, []string{"mind the gap"}) {
				t.Errorf("warnings %q", told.texts)
			}
		})
	}
}

// warnings are those that a client was sent.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

// TestWebhooksChange: webhooks change objects one after the other, and look again at what others made of them if they
// ask for that; what they add is defaulted, and pruned by the schema of a custom resource.
func TestWebhooksChange(t *testing.T) {
	f, h := startCustom(t), newHooks(t)
	c := f.client(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.answer["first"] = patchOf(`[{"op":"add","path":"/metadata/annotations","value":{"first":"seen"}}]`)
	h.answer["second"] = patchOf(`[{"op":"add","path":"/spec/containers/-","value":{"name":"side","image":"s"}}]`)
	h.answer["widget"] = patchOf(
		`[{"op":"replace","path":"/spec/replicas","value":5},{"op":"add","path":"/spec/unknown","value":1}]`)
	h.answer["away"] = patchOf(`[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]`)
	h.answer["bare"] = patchOf(`[{"op":"remove","path":"/metadata/namespace"}]`)
	first, second := mutating("first", h.at("first"), "pods"), mutating("second", h.at("second"), "pods")
	first.ReinvocationPolicy = ptr.To(hooksv1.IfNeededReinvocationPolicy)
	widget := mutating("widget", h.at("widget"), "widgets")
	widget.Rules[0].APIVersions = []string{"v1beta1"} // and, as it is the same, v1
	away, bare := mutating("away", h.at("away"), "secrets"), mutating("bare", h.at("bare"), "configmaps")
	installMutating(t, c, first, second, widget, away, bare)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsBadRequest(err) {
		t.Errorf("a webhook moves an object elsewhere: %v", err)
	}
	if m, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMapFor("m"),
		metav1.CreateOptions{}); err != nil || m.Namespace != "default" {
		t.Errorf("a webhook leaves the namespace out: %v, %v", m, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	side := pod.Spec.Containers[len(pod.Spec.Containers)-1]
	if pod.Annotations["first"] != "seen" || side.Name != "side" || side.TerminationMessagePath == "" {
		t.Errorf("pod %v %+v", pod.Annotations, side)
	}
	if got, want := h.calls(), []string{"CREATE secrets s", "CREATE configmaps m", "CREATE pods p", "CREATE pods p",
		"CREATE pods p"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	made := f.create(t, "w", "spec: {color: red}")
	spec := made.Object["spec"].(map[string]any)
	if spec["replicas"] != int64(5) || spec["unknown"] != nil {
		t.Errorf("spec %v", spec)
	}
}

func deploymentFor(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
	}}
}

// TestWebhooksSeeEverything: whatever is done to objects passes them, but for their own configuration.
func TestWebhooksSeeEverything(t *testing.T) {
	f, h := startCustom(t), newHooks(t)
	c := f.client(t)
	install(t, c, validating("all", h.at(""), "*/*"))
	ctx := t.Context()
	merge := func(resource, name, patch string, sub ...string) error {
		request := c.AppsV1().RESTClient().Patch(types.MergePatchType).Namespace("default").Resource(resource).Name(
			name)
		return request.SubResource(sub...).Body([]byte(patch)).Do(ctx).Error()
	}
	steps := []struct {
		do   func() error
		want []string
	}{
		{func() error {
			_, err := c.AppsV1().Deployments("default").Create(ctx, deploymentFor("d"), metav1.CreateOptions{})
			return err
		}, []string{"CREATE deployments d"}},
		{func() error { return merge("deployments", "d", `{"metadata":{"labels":{"a":"b"}}}`) },
			[]string{"UPDATE deployments d"}},
		{func() error { return merge("deployments", "d", `{"status":{"replicas":1}}`, "status") },
			[]string{"UPDATE deployments/status d"}},
		{func() error {
			_, err := c.AppsV1().Deployments("default").UpdateScale(ctx, "d", &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"},
				Spec:       autoscalingv1.ScaleSpec{Replicas: 2}}, metav1.UpdateOptions{})
			return err
		}, []string{"UPDATE deployments/scale d"}},
		{func() error { return c.AppsV1().Deployments("default").Delete(ctx, "d", metav1.DeleteOptions{}) },
			[]string{"DELETE deployments d"}},
		{func() error {
			_, err := f.widgets().Create(ctx, widget(t, "w", "spec: {color: red}"), metav1.CreateOptions{})
			return err
		}, []string{"CREATE widgets w"}},
		{func() error {
			_, err := f.widgets().Patch(ctx, "w", types.MergePatchType, []byte(`{"status":{"phase":"x"}}`),
				metav1.PatchOptions{}, "status")
			return err
		}, []string{"UPDATE widgets/status w"}},
		{func() error {
			return f.widgets().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, []string{"DELETE widgets "}}, // it names none
		{func() error {
			err := c.CoreV1().RESTClient().Get().Namespace("default").Resource("services").Name("none").SubResource(
				"proxy").Do(ctx).Error()
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}, []string{"CONNECT services/proxy none"}},
		{func() error {
			_, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, "test",
				types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		}, nil},
		{func() error {
			_, err := c.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{},
				metav1.CreateOptions{})
			if apierrors.IsBadRequest(err) {
				return nil
			}
			return fmt.Errorf("a review of no token: %w", err)
		}, nil}, // what makes no sense isn't shown
		{func() error {
			_, err := c.AuthenticationV1().TokenReviews().Create(ctx,
				&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}},
				metav1.CreateOptions{})
			return err
		}, []string{"CREATE tokenreviews "}},
	}
	h.calls()
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Errorf("%v: %v", step.want, err)
		}
		// When another write came in between, the server asks again.
		if got := slices.Compact(h.calls()); !slices.Equal(got, step.want) {
			t.Errorf("calls %q, want %q", got, step.want)
		}
	}
}

// TestWebhookBehindService: the reference is resolved, and the certificate is the Service's, not the one of where that
// is.
func TestWebhookBehindService(t *testing.T) {
	authority, err := certs.NewAuthority("hooks")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Serving("hook", "hook.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	f, h := start(t), newHooks(t)
	h.answer["deny"] = func(_ *admissionv1.AdmissionRequest, a *admissionv1.AdmissionResponse) { a.Allowed = false }
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	at := netip.MustParseAddrPort(server.Listener.Addr().String())

	c := f.client(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "localhost",
	}}
	if _, err := c.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	install(t, c, validating("service", hooksv1.WebhookClientConfig{
		Service: &hooksv1.ServiceReference{Namespace: "default", Name: "hook", Path: ptr.To("/deny"),
			Port: ptr.To(int32(at.Port()))},
		CABundle: authority.Cert,
	}, "configmaps"))
	const want = `admission webhook "service.test.example.com" denied the request without explanation`
	eventually(t, want, func() bool { // admission learns of Services by watching
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMapFor("x"), metav1.CreateOptions{})
		return err != nil && err.Error() == want
	})
}

// TestWebhookIsThisServer: what is said to be behind the Service of the API servers is asked here, by the server
// itself.
func TestWebhookIsThisServer(t *testing.T) {
	authority, err := certs.NewAuthority("hooks")
	if err != nil {
		t.Fatal(err)
	}
	c := start(t).client(t)
	install(t, c, validating("self", hooksv1.WebhookClientConfig{
		Service: &hooksv1.ServiceReference{Namespace: "default", Name: "kubernetes",
			Path: ptr.To("/api/v1/namespaces/default/configmaps/none")},
		CABundle: authority.Cert,
	}, "configmaps"))
	const want = "failed calling webhook \"self.test.example.com\": failed to call webhook: the server does not allow " +
		"this method on the requested resource"
	eventually(t, want, func() bool {
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMapFor("x"), metav1.CreateOptions{})
		return err != nil && strings.Contains(err.Error(), want)
	})
}

// TestNamespacesAreDeletedByUID: admission sees of which namespace the deletion is, though the client didn't say.
func TestNamespacesAreDeletedByUID(t *testing.T) {
	h := newHooks(t)
	c := start(t).client(t)
	options := make(chan metav1.DeleteOptions, 8)
	h.answer["delete"] = func(r *admissionv1.AdmissionRequest, _ *admissionv1.AdmissionResponse) {
		var o metav1.DeleteOptions
		if r.Operation == admissionv1.Delete && json.Unmarshal(r.Options.Raw, &o) == nil {
			options <- o
		}
	}
	made, err := c.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	install(t, c, validating("delete", h.at("delete"), "namespaces"))
	if err := c.CoreV1().Namespaces().Delete(t.Context(), "doomed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if seen := <-options; seen.Preconditions == nil || seen.Preconditions.UID == nil ||
		*seen.Preconditions.UID != made.UID {
		t.Errorf("admission saw %+v", seen)
	}
}
