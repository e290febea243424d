package admission

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func nobody(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

func fixture(t *testing.T) (*Chain, *objectstest.Store) {
	t.Helper()
	store := &objectstest.Store{}
	store.Put(corev1.Resource("namespaces"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	store.Put(corev1.Resource("serviceaccounts"),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}})
	chain, err := New(Config{Objects: store, Authorizer: authorizer.AuthorizerFunc(nobody),
		Clock: testingclock.NewFakeClock(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	return chain, store
}

type write struct {
	op       admission.Operation
	resource schema.GroupResource
	sub      string
	obj, old api.Object
	user     user.Info
}

// do passes a write through both halves of the chain.
func do(c *Chain, w write) error {
	if w.user == nil {
		w.user = &user.DefaultInfo{Name: "jane"}
	}
	of := w.obj
	if of == nil {
		of = w.old
	}
	a := admission.NewAttributesRecord(w.obj, w.old, schema.GroupVersionKind{}, of.GetNamespace(), of.GetName(),
		w.resource.WithVersion("v1"), w.sub, w.op, nil, false, w.user)
	if err := c.Admit(context.Background(), a, nil); err != nil {
		return err
	}
	return c.Validate(context.Background(), a, nil)
}

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func TestSelection(t *testing.T) {
	for _, tt := range []struct {
		name            string
		enable, disable []string
		want            string
	}{
		{"unknown", []string{"Frobnicate"}, nil, `enable-admission-plugins plugin "Frobnicate" is unknown`},
		{"unknown to disable", nil, []string{"Frobnicate"}, `disable-admission-plugins plugin "Frobnicate" is unknown`},
		{"not configured", []string{"EventRateLimit"}, nil,
			"admission plugin EventRateLimit: limits: Invalid value: null: must not be empty"},
		{"both", []string{"Priority"}, []string{"Priority"}, "overlapped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(Config{Objects: &objectstest.Store{}, Enable: tt.enable, Disable: tt.disable})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v", err)
			}
		})
	}
	c, err := New(Config{Objects: &objectstest.Store{}, Enable: []string{"NodeRestriction", "JobValidation"},
		Disable: []string{"Priority", "ValidatingAdmissionWebhook"}})
	if err != nil {
		t.Fatal(err)
	}
	names := c.Plugins()
	if !slices.Contains(names, "NodeRestriction") || slices.Contains(names, "Priority") ||
		names[0] != "NamespaceLifecycle" {
		t.Errorf("on: %v", names)
	}
}

// TestPod shows all that happens to a plain pod.
func TestPod(t *testing.T) {
	c, _ := fixture(t)
	pod := &corev1.Pod{ObjectMeta: in("ns", "p"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	if err := do(c, write{op: admission.Create, resource: corev1.Resource("pods"), obj: pod}); err != nil {
		t.Fatal(err)
	}
	spec := &pod.Spec
	if spec.ServiceAccountName != "default" || len(spec.ImagePullSecrets) != 1 || *spec.Priority != 0 ||
		*spec.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("spec %+v", spec)
	}
	if len(spec.Tolerations) != 2 || *spec.Tolerations[1].TolerationSeconds != 300 ||
		spec.Tolerations[1].Key != corev1.TaintNodeUnreachable {
		t.Errorf("tolerations %+v", spec.Tolerations)
	}
	if len(spec.Volumes) != 1 || !strings.HasPrefix(spec.Volumes[0].Name, "kube-api-access-") ||
		len(spec.Volumes[0].Projected.Sources) != 3 ||
		spec.Containers[0].VolumeMounts[0].Name != spec.Volumes[0].Name ||
		spec.Containers[0].VolumeMounts[0].MountPath != "/var/run/secrets/kubernetes.io/serviceaccount" {
		t.Errorf("volumes %+v, mounts %+v", spec.Volumes, spec.Containers[0].VolumeMounts)
	}
	again := pod.DeepCopy()
	if err := do(c, write{op: admission.Create, resource: corev1.Resource("pods"), obj: again}); err != nil {
		t.Fatal(err)
	}
	if len(again.Spec.Volumes) != 1 || len(again.Spec.Tolerations) != 2 ||
		len(again.Spec.Containers[0].VolumeMounts) != 1 {
		t.Error("a second pass changes the pod again")
	}
}

func TestRefusals(t *testing.T) {
	terminating := &corev1.Namespace{ObjectMeta: in("", "going"),
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}
	pod := func(namespace string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: in(namespace, "p"),
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
		if change != nil {
			change(p)
		}
		return p
	}
	strict := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "strict",
		Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}},
		Secrets: []corev1.ObjectReference{{Name: "listed"}}}
	withSecret := func(name string) *corev1.Pod {
		return pod("ns", func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "strict"
			p.Spec.Volumes = []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}}
		})
	}
	pods := corev1.Resource("pods")
	for _, tt := range []struct {
		name string
		w    write
		want string // part of the error, "" for none
	}{
		{"no such namespace", write{op: admission.Create, resource: pods, obj: pod("none", nil)},
			`namespaces "none" not found`},
		{"namespace is going", write{op: admission.Create, resource: pods, obj: pod("going", nil)},
			"because it is being terminated"},
		{"deletion in a namespace that is going", write{op: admission.Delete, resource: pods, old: pod("going", nil)},
			""},
		{"system namespace", write{op: admission.Delete, resource: corev1.Resource("namespaces"),
			old: &corev1.Namespace{ObjectMeta: in("", "kube-system")}}, "this namespace may not be deleted"},
		{"own namespace", write{op: admission.Delete, resource: corev1.Resource("namespaces"),
			old: &corev1.Namespace{ObjectMeta: in("", "ns")}}, ""},
		{"no such account", write{op: admission.Create, resource: pods,
			obj: pod("ns", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "x" })},
			`error looking up service account ns/x: serviceaccount "x" not found`},
		{"secret that the account lists", write{op: admission.Create, resource: pods, obj: withSecret("listed")}, ""},
		{"secret that the account does not list", write{op: admission.Create, resource: pods, obj: withSecret("other")},
			"because service account strict does not reference that secret"},
		{"mirror pod with account", write{op: admission.Create, resource: pods, obj: pod("ns", func(p *corev1.Pod) {
			p.Annotations, p.Spec.ServiceAccountName = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, "default"
		})}, "a mirror pod may not reference service accounts"},
		{"no such priority class",
			write{op: admission.Create, resource: pods,
				obj: pod("ns", func(p *corev1.Pod) { p.Spec.PriorityClassName = "x" })},
			"no PriorityClass with name x was found"},
		{"own priority", write{op: admission.Create, resource: pods,
			obj: pod("ns", func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](7) })},
			"must not be provided in pod spec"},
		{"second default class", write{op: admission.Create, resource: schedulingv1.Resource("priorityclasses"),
			obj: &schedulingv1.PriorityClass{ObjectMeta: in("", "b"), GlobalDefault: true}},
			"PriorityClass a is already marked as default"},
		{"no such runtime class",
			write{op: admission.Create, resource: pods,
				obj: pod("ns", func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To("x") })},
			`pod rejected: RuntimeClass "x" not found`},
		{"own overhead", write{op: admission.Create, resource: pods, obj: pod("ns", func(p *corev1.Pod) {
			p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")}
		})}, "Pod Overhead set without corresponding RuntimeClass"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, store := fixture(t)
			store.Put(corev1.Resource("namespaces"), terminating)
			store.Put(corev1.Resource("serviceaccounts"), strict)
			store.Put(schedulingv1.Resource("priorityclasses"),
				&schedulingv1.PriorityClass{ObjectMeta: in("", "a"), GlobalDefault: true, Value: 5})
			err := do(c, tt.w)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestPriority(t *testing.T) {
	c, store := fixture(t)
	classes := schedulingv1.Resource("priorityclasses")
	store.Put(classes, &schedulingv1.PriorityClass{ObjectMeta: in("", "high"), Value: 100,
		PreemptionPolicy: ptr.To(corev1.PreemptNever)})
	store.Put(classes, &schedulingv1.PriorityClass{ObjectMeta: in("", "usual"), Value: 5, GlobalDefault: true})
	for name, want := range map[string]int32{"high": 100, "": 5} {
		pod := &corev1.Pod{ObjectMeta: in("ns", "p"), Spec: corev1.PodSpec{PriorityClassName: name}}
		if err := do(c, write{op: admission.Create, resource: corev1.Resource("pods"), obj: pod}); err != nil {
			t.Fatal(err)
		}
		if *pod.Spec.Priority != want || pod.Spec.PriorityClassName == "" ||
			(*pod.Spec.PreemptionPolicy == corev1.PreemptNever) != (name == "high") {
			t.Errorf("%q: %v %v %v", name, *pod.Spec.Priority, pod.Spec.PriorityClassName, *pod.Spec.PreemptionPolicy)
		}
		changed := pod.DeepCopy()
		changed.Spec.Priority, changed.Spec.PreemptionPolicy = nil, nil
		if err := do(c, write{op: admission.Update, resource: corev1.Resource("pods"), obj: changed,
			old: pod}); err != nil {
			t.Fatal(err)
		}
		if *changed.Spec.Priority != want || changed.Spec.PreemptionPolicy == nil {
			t.Errorf("%q: an update lost the priority", name)
		}
	}
}

func TestDefaults(t *testing.T) {
	c, store := fixture(t)
	older, newer := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	yes := map[string]string{"storageclass.kubernetes.io/is-default-class": "true",
		networkingv1.AnnotationIsDefaultIngressClass: "true"}
	for name, created := range map[string]metav1.Time{"old": older, "new": newer} {
		meta := metav1.ObjectMeta{Name: name, CreationTimestamp: created, Annotations: yes}
		store.Put(storagev1.Resource("storageclasses"),
			&storagev1.StorageClass{ObjectMeta: meta, AllowVolumeExpansion: ptr.To(true)})
		store.Put(networkingv1.Resource("ingressclasses"), &networkingv1.IngressClass{ObjectMeta: meta})
	}
	claims := corev1.Resource("persistentvolumeclaims")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: in("ns", "c")}
	if err := do(c, write{op: admission.Create, resource: claims, obj: claim}); err != nil {
		t.Fatal(err)
	}
	if *claim.Spec.StorageClassName != "new" || !slices.Contains(claim.Finalizers, "kubernetes.io/pvc-protection") {
		t.Errorf("claim %+v", claim)
	}
	none := &corev1.PersistentVolumeClaim{ObjectMeta: in("ns", "c"),
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("")}}
	if err := do(c, write{op: admission.Create, resource: claims, obj: none}); err != nil ||
		*none.Spec.StorageClassName != "" {
		t.Errorf("%v %v", *none.Spec.StorageClassName, err)
	}
	grown := claim.DeepCopy()
	grown.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	if err := do(c, write{op: admission.Update, resource: claims, obj: grown, old: claim}); err == nil {
		t.Error("a claim that is not bound grew")
	}
	claim.Status.Phase = corev1.ClaimBound
	if err := do(c, write{op: admission.Update, resource: claims, obj: grown, old: claim}); err != nil {
		t.Error(err)
	}
	ingress := &networkingv1.Ingress{ObjectMeta: in("ns", "i")}
	if err := do(c, write{op: admission.Create, resource: networkingv1.Resource("ingresses"),
		obj: ingress}); err != nil || *ingress.Spec.IngressClassName != "new" {
		t.Errorf("%+v %v", ingress.Spec, err)
	}
	node := &corev1.Node{ObjectMeta: in("", "n")}
	if err := do(c, write{op: admission.Create, resource: corev1.Resource("nodes"), obj: node}); err != nil ||
		len(node.Spec.Taints) != 1 {
		t.Errorf("%+v %v", node.Spec, err)
	}
}

func TestRuntimeClass(t *testing.T) {
	c, store := fixture(t)
	store.Put(nodev1.Resource("runtimeclasses"), &nodev1.RuntimeClass{ObjectMeta: in("", "vm"),
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"vm": "yes"},
			Tolerations: []corev1.Toleration{{Key: "vm"}}}})
	pod := &corev1.Pod{ObjectMeta: in("ns", "p"), Spec: corev1.PodSpec{RuntimeClassName: ptr.To("vm")}}
	if err := do(c, write{op: admission.Create, resource: corev1.Resource("pods"), obj: pod}); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Overhead.Cpu().Value() != 1 || pod.Spec.NodeSelector["vm"] != "yes" ||
		!slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "vm" }) {
		t.Errorf("spec %+v", pod.Spec)
	}
	conflict := &corev1.Pod{ObjectMeta: in("ns", "p"),
		Spec: corev1.PodSpec{RuntimeClassName: ptr.To("vm"), NodeSelector: map[string]string{"vm": "no"}}}
	if err := do(c, write{op: admission.Create, resource: corev1.Resource("pods"), obj: conflict}); err == nil ||
		!strings.Contains(err.Error(), "conflict: runtimeClass") {
		t.Errorf("error %v", err)
	}
}

func TestTopologyLabels(t *testing.T) {
	c, store := fixture(t)
	store.Put(corev1.Resource("nodes"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
			Labels: map[string]string{corev1.LabelTopologyZone: "z", "other": "x"}}})
	binding := &corev1.Binding{ObjectMeta: in("ns", "p"), Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	if err := do(c, write{op: admission.Create, resource: corev1.Resource("pods"), sub: "binding",
		obj: binding}); err != nil {
		t.Fatal(err)
	}
	if len(binding.Labels) != 1 || binding.Labels[corev1.LabelTopologyZone] != "z" {
		t.Errorf("labels %v", binding.Labels)
	}
}

type refuser struct{ asked string }

func (r *refuser) CheckRole(_ context.Context, u user.Info, a authorizer.AttributesRecord, name string,
	_ []rbacv1.PolicyRule, aggregates bool) error {
	r.asked = strings.Join([]string{u.GetName(), a.Resource, a.Namespace, name}, "/")
	if aggregates {
		r.asked += "+"
	}
	return nil
}

func (r *refuser) CheckBinding(_ context.Context, u user.Info, namespace, name string, ref rbacv1.RoleRef) error {
	r.asked = strings.Join([]string{u.GetName(), namespace, name, ref.Name}, "/")
	return nil
}

func TestEscalationIsAsked(t *testing.T) {
	_, store := fixture(t)
	store.Put(corev1.Resource("namespaces"), &corev1.Namespace{ObjectMeta: in("", "ns")})
	r := &refuser{}
	c, err := New(Config{Objects: store, Escalation: r})
	if err != nil {
		t.Fatal(err)
	}
	aggregated := &rbacv1.ClusterRole{ObjectMeta: in("", "c"),
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}}
	collected := aggregated.DeepCopy()
	collected.Finalizers = []string{"x"}
	for _, tt := range []struct {
		name string
		w    write
		want string
	}{
		{"role", write{op: admission.Create, resource: rbacv1.Resource("roles"),
			obj: &rbacv1.Role{ObjectMeta: in("ns", "r")}}, "jane/roles/ns/r"},
		{"cluster role", write{op: admission.Create, resource: rbacv1.Resource("clusterroles"), obj: aggregated},
			"jane/clusterroles//c+"},
		{"rule taken away", write{op: admission.Update, resource: rbacv1.Resource("clusterroles"),
			obj: &rbacv1.ClusterRole{ObjectMeta: in("", "c")}, old: aggregated}, "jane/clusterroles//c+"},
		{"only finalizers", write{op: admission.Update, resource: rbacv1.Resource("clusterroles"), obj: collected,
			old: aggregated}, ""},
		{"binding", write{op: admission.Create, resource: rbacv1.Resource("rolebindings"),
			obj: &rbacv1.RoleBinding{ObjectMeta: in("ns", "b"), RoleRef: rbacv1.RoleRef{Name: "r"}}}, "jane/ns/b/r"},
		{"cluster binding", write{op: admission.Create, resource: rbacv1.Resource("clusterrolebindings"),
			obj: &rbacv1.ClusterRoleBinding{ObjectMeta: in("", "b"), RoleRef: rbacv1.RoleRef{Name: "r"}}}, "jane//b/r"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.asked = ""
			if err := do(c, tt.w); err != nil || r.asked != tt.want {
				t.Errorf("asked %q, error %v", r.asked, err)
			}
		})
	}
}

func TestRunEnds(t *testing.T) {
	c, _ := fixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Error(err)
	}
}

func BenchmarkPod(b *testing.B) {
	store := &objectstest.Store{}
	store.Put(corev1.Resource("namespaces"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	store.Put(corev1.Resource("serviceaccounts"),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default"}})
	c, err := New(Config{Objects: store, Authorizer: authorizer.AuthorizerFunc(nobody)})
	if err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: in("ns", "p"),
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	for b.Loop() {
		if err := do(c, write{op: admission.Create, resource: corev1.Resource("pods"),
			obj: pod.DeepCopy()}); err != nil {
			b.Fatal(err)
		}
	}
}
