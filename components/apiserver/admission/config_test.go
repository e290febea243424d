package admission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/admission/dynamic"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

const fileHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"

const baseline = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: " +
	"{enforce: baseline}\n"

// withFile makes a chain that text, and beside it the file security.yaml, configure.
func withFile(t *testing.T, text string) (*Chain, *objectstest.Store, error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "admission.yaml")
	for name, content := range map[string]string{path: text, filepath.Join(dir, "security.yaml"): baseline} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := &objectstest.Store{}
	store.Put(corev1.Resource("namespaces"), &corev1.Namespace{ObjectMeta: in("", "ns")})
	store.Put(corev1.Resource("serviceaccounts"), &corev1.ServiceAccount{ObjectMeta: in("ns", "default")})
	c, err := New(Config{Objects: store, Authorizer: authorizer.AuthorizerFunc(nobody), File: path})
	return c, store, err
}

func TestFileConfiguresPlugins(t *testing.T) {
	for name, text := range map[string]string{
		"by path": fileHead + "- {name: PodSecurity, path: security.yaml}\n",
		"inline": fileHead + "- name: PodSecurity\n  configuration:\n    " +
			strings.ReplaceAll(strings.TrimSpace(baseline), "\n", "\n    "),
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := withFile(t, text)
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: in("ns", "p"),
				Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c"}}}}
			err = do(c, write{op: admission.Create, resource: corev1.Resource("pods"), obj: pod})
			if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "baseline:latest": host namespaces`) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestFileIsWrong(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no YAML":       {"{", "unexpected end of JSON input"},
		"another kind":  {"apiVersion: v1\nkind: Pod\n", `no kind "Pod" is registered`},
		"unknown field": {fileHead + "- {name: PodSecurity, colour: red}\n", `unknown field "plugins[0].colour"`},
		"no such file":  {fileHead + "- {name: PodSecurity, path: none.yaml}\n", "none.yaml: no such file"},
		"of another plug-in": {fileHead + "- {name: ValidatingAdmissionWebhook, path: security.yaml}\n",
			`admission plugin ValidatingAdmissionWebhook: no kind "PodSecurityConfiguration" is registered`},
		"relative kubeconfig": {fileHead +
			"- name: MutatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: " +
			"WebhookAdmissionConfiguration, kubeConfigFile: x}\n",
			"must be an absolute file path"},
		"no such kubeconfig": {fileHead +
			"- name: MutatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: " +
			"WebhookAdmissionConfiguration, kubeConfigFile: /none}\n",
			"/none: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := withFile(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := New(Config{Objects: &objectstest.Store{}, File: "/none.yaml"}); err == nil ||
		!strings.Contains(err.Error(), "--admission-control-config-file: open /none.yaml") {
		t.Errorf("error %v", err)
	}
}

// TestFileSaysMore: what it says of plug-ins that are unknown, or off, or take nothing, is not looked at, nor is a
// second entry.
func TestFileSaysMore(t *testing.T) {
	for name, entries := range map[string]string{
		"unknown":        "- {name: PodSecurty, path: none}\n",
		"off":            "- {name: EventRateLimit, path: none}\n- {name: ImagePolicyWebhook, configuration: {a: b}}\n",
		"takes nothing":  "- {name: LimitRanger, path: none}\n",
		"of no effect":   "- {name: JobValidation, path: none}\n",
		"a second entry": "- {name: PodSecurity}\n- {name: PodSecurity, path: none}\n",
	} {
		if _, _, err := withFile(t, fileHead+entries); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnversionedFile: plug-ins had files of their own before there was one for all.
func TestUnversionedFile(t *testing.T) {
	dir := t.TempDir()
	path, remote := filepath.Join(dir, "config"), filepath.Join(dir, "remote")
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: " +
		"https://images.example.com}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x"
	images, selectors := "imagePolicy: {kubeConfigFile: "+remote+"}\n", "podNodeSelectorPluginConfig: {ns: disk=fast}\n"
	for name, c := range map[string]struct {
		text, want string
		enable     []string
	}{
		"both":          {text: images + selectors, enable: []string{"ImagePolicyWebhook", "PodNodeSelector"}},
		"one":           {text: selectors, enable: []string{"PodNodeSelector"}},
		"neither is on": {text: images},
		"another's": {text: selectors, enable: []string{"ImagePolicyWebhook"},
			want: "admission plugin ImagePolicyWebhook: no config specified"},
		"something": {text: "a: b\n", enable: []string{"PodNodeSelector"}, want: "Object 'Kind' is missing"},
	} {
		for file, text := range map[string]string{path: c.text, remote: kubeconfig} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		store := &objectstest.Store{}
		chain, err := New(Config{Objects: store, File: path, Enable: c.enable,
			Disable: []string{"ServiceAccount", "Priority"}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if name != "one" || err != nil {
			continue
		}
		store.Put(corev1.Resource("namespaces"), &corev1.Namespace{ObjectMeta: in("", "ns")})
		pod := &corev1.Pod{ObjectMeta: in("ns", "p"),
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": "slow"}}}
		if err := do(chain, write{op: admission.Create, resource: corev1.Resource("pods"), obj: pod}); err == nil ||
			!strings.Contains(err.Error(), "conflict") {
			t.Errorf("a pod that wants another disk: %v", err)
		}
	}
}

// TestOrder: what runs first sees the object first, and may refuse it first.
func TestOrder(t *testing.T) {
	var all []string
	for _, p := range plugins {
		if p.off {
			all = append(all, p.name)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config": "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: EventRateLimit, " +
			"path: events}, {name: ImagePolicyWebhook, path: images}]",
		"events": "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: [{type: Server, qps: " +
			"1, burst: 1}]",
		"images": "imagePolicy: {kubeConfigFile: " + filepath.Join(dir, "remote") + "}",
		"remote": "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: " +
			"https://images.example.com}}]\nusers: [{name: u}]\ncontexts: [{name: x, context: {cluster: c, user: " +
			"u}}]\ncurrent-context: x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := New(Config{Objects: &objectstest.Store{}, Enable: all, File: filepath.Join(dir, "config"),
		Dynamic: dynamic.Config{Client: &rest.Config{}}})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(
		"AlwaysAdmit,NamespaceAutoProvision,NamespaceLifecycle,NamespaceExists,LimitPodHardAntiAffinityTopology,LimitRanger,"+
			"ServiceAccount,NodeRestriction,TaintNodesByCondition,AlwaysPullImages,ImagePolicyWebhook,PodSecurity,PodNodeSelector,Priority,DefaultTolerationSeconds,"+
			"PodTolerationRestriction,EventRateLimit,ExtendedResourceToleration,DefaultStorageClass,StorageObjectInUseProtection,PodGroupProtection,OwnerReferencesPermissionEnforcement,"+
			"PersistentVolumeClaimResize,RuntimeClass,CertificateApproval,CertificateSigning,ClusterTrustBundleAttest,CertificateSubjectRestriction,DefaultIngressClass,"+
			"DenyServiceExternalIPs,PodTopologyLabels,PodGroupWorkloadExists,NodeDeclaredFeatureValidator,JobValidation,PodResizeValidator,MutatingAdmissionPolicy,MutatingAdmissionWebhook,"+
			"ValidatingAdmissionPolicy,ValidatingAdmissionWebhook,ResourceQuota,AlwaysDeny",
		",",
	)
	if got := c.Plugins(); !slices.Equal(got, want) {
		t.Errorf("order\n%v, want\n%v", got, want)
	}
}
