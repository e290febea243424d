package admission

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/admission/dynamic"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// finalizing may set the finalizers of deployments.
func finalizing(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == "finalizer" && a.GetResource() == "deployments" && a.GetSubresource() == "finalizers" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// with is a chain with a plug-in that is off by default.
func with(t *testing.T, name string) (*Chain, *objectstest.Store) {
	t.Helper()
	store := &objectstest.Store{}
	store.Put(corev1.Resource("namespaces"), &corev1.Namespace{ObjectMeta: in("", "ns")})
	store.Put(corev1.Resource("serviceaccounts"), &corev1.ServiceAccount{ObjectMeta: in("ns", "default")})
	table := kinds.Table(api.Deps{})
	c, err := New(Config{
		Objects: store, Authorizer: authorizer.AuthorizerFunc(finalizing), Enable: []string{name},
		Dynamic: dynamic.Config{Kinds: func() []*api.Kind { return table }},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, store
}

func plainPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: in("ns", "p"),
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	change(pod)
	return pod
}

func TestPluginsThatRefuse(t *testing.T) {
	pods, services := corev1.Resource("pods"), corev1.Resource("services")
	far := plainPod(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "zone"}}}}
	})
	plain := plainPod(func(*corev1.Pod) {})
	service := func(ips ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: in("ns", "s"), Spec: corev1.ServiceSpec{ExternalIPs: ips}}
	}
	ownedBy := func(version, kind string) *corev1.Pod {
		return plainPod(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: version, Kind: kind, Name: "d", UID: "1", BlockOwnerDeletion: new(true)}}
		})
	}
	owned := ownedBy("apps/v1", "Deployment")
	finalizer := &user.DefaultInfo{Name: "finalizer"}
	for _, tt := range []struct {
		name, plugin string
		w            write
		want         string // part of the error, "" for none
	}{
		{"everything", "AlwaysDeny", write{op: admission.Create, resource: pods, obj: plain},
			"admission control is denying all modifications"},
		{"nothing", "AlwaysAdmit", write{op: admission.Create, resource: pods, obj: plain}, ""},
		{"zone", "LimitPodHardAntiAffinityTopology", write{op: admission.Create, resource: pods, obj: far},
			"has TopologyKey zone but only key kubernetes.io/hostname is allowed"},
		{"new address", "DenyServiceExternalIPs",
			write{op: admission.Create, resource: services, obj: service("1.2.3.4")},
			"Use of external IPs is denied by admission control"},
		{"kept address", "DenyServiceExternalIPs",
			write{op: admission.Update, resource: services, obj: service("1.2.3.4"),
				old: service("1.2.3.4", "1.2.3.5")}, ""},
		{"no namespace", "NamespaceExists",
			write{op: admission.Delete, resource: pods, old: &corev1.Pod{ObjectMeta: in("none", "p")}},
			`namespaces "none" not found`},
		{"blocking owner", "OwnerReferencesPermissionEnforcement",
			write{op: admission.Create, resource: pods, obj: owned},
			"cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"},
		{"own owner", "OwnerReferencesPermissionEnforcement",
			write{op: admission.Create, resource: pods, obj: owned, user: finalizer}, ""},
		{"owner in small letters", "OwnerReferencesPermissionEnforcement",
			write{op: admission.Create, resource: pods, obj: ownedBy("apps/v1", "deployment"), user: finalizer}, ""},
		{"owner of another's", "OwnerReferencesPermissionEnforcement",
			write{op: admission.Update, resource: pods, obj: owned, old: plain, user: finalizer},
			"cannot set an ownerRef on a resource you can't delete"},
		{"unknown owner", "OwnerReferencesPermissionEnforcement",
			write{op: admission.Create, resource: appsv1.Resource("deployments"), obj: &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
					OwnerReferences: []metav1.OwnerReference{
						{APIVersion: "x/v1", Kind: "X", BlockOwnerDeletion: new(true)}}}}},
			"cannot find RESTMapping for APIVersion x/v1 Kind X"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := with(t, tt.plugin)
			if w := tt.w.obj; w != nil {
				tt.w.obj = w.DeepCopyObject().(api.Object)
			}
			err := do(c, tt.w)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestPluginsThatChange(t *testing.T) {
	pods := corev1.Resource("pods")
	t.Run("AlwaysPullImages", func(t *testing.T) {
		c, _ := with(t, "AlwaysPullImages")
		pod := plainPod(func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever })
		old := pod.DeepCopy()
		if err := do(c, write{op: admission.Update, resource: pods, obj: pod, old: old}); err != nil ||
			pod.Spec.Containers[0].ImagePullPolicy != corev1.PullNever {
			t.Errorf("a pod without new images: %v, %v", pod.Spec.Containers[0].ImagePullPolicy, err)
		}
		if err := do(c, write{op: admission.Create, resource: pods, obj: pod}); err != nil ||
			pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
			t.Errorf("a new pod: %v, %v", pod.Spec.Containers[0].ImagePullPolicy, err)
		}
	})
	t.Run("ExtendedResourceToleration", func(t *testing.T) {
		c, _ := with(t, "ExtendedResourceToleration")
		pod := plainPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				"example.com/b": resource.MustParse("1"), "example.com/a": resource.MustParse("1"),
				"cpu": resource.MustParse("1"), "hugepages-2Mi": resource.MustParse("2Mi"),
			}
		})
		if err := do(c, write{op: admission.Create, resource: pods, obj: pod}); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, toleration := range pod.Spec.Tolerations {
			if strings.HasPrefix(toleration.Key, "example.com/") {
				keys = append(keys, toleration.Key)
			}
		}
		if strings.Join(keys, " ") != "example.com/a example.com/b" {
			t.Errorf("tolerations of %q", keys)
		}
	})
}

func TestResizeFitsTheNode(t *testing.T) {
	for _, tt := range []struct{ name, system, cpu, want string }{
		{"fits", "linux", "2", ""},
		{"too large", "linux", "3",
			"node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000"},
		{"windows", "windows", "1", `pod resize is only supported on linux nodes, node "n" is "windows"`},
		{"no node", "", "1", `node "n" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, store := with(t, "AlwaysAdmit")
			if tt.system != "" {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n",
					Labels: map[string]string{corev1.LabelOSStable: tt.system}}}
				node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("2"),
					"memory": resource.MustParse("1Gi")}
				store.Put(corev1.Resource("nodes"), node)
			}
			old := plainPod(func(p *corev1.Pod) { p.Spec.NodeName, p.Generation = "n", 1 })
			pod := plainPod(func(p *corev1.Pod) {
				p.Spec.NodeName, p.Generation = "n", 2
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(tt.cpu)}
			})
			err := do(c, write{op: admission.Update, resource: corev1.Resource("pods"), sub: "resize", obj: pod,
				old: old})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
