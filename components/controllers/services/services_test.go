package services

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/pods"
)

func service(name string, change ...func(*v1.Service)) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": name}}}
	for _, c := range change {
		c(s)
	}
	return s
}

func pod(name, app string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u",
		Labels: map[string]string{"app": app}},
		Status: v1.PodStatus{Phase: v1.PodRunning}}
	for _, c := range change {
		c(p)
	}
	return p
}

func indexer(t *testing.T, objects ...any) cache.Indexer {
	t.Helper()
	x := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		if err := x.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func TestSelects(t *testing.T) {
	for name, c := range map[string]struct {
		service *v1.Service
		want    bool
	}{
		"a selector":              {service("a"), true},
		"none":                    {service("a", func(s *v1.Service) { s.Spec.Selector = nil }), false},
		"an empty one":            {service("a", func(s *v1.Service) { s.Spec.Selector = map[string]string{} }), true},
		"another name of outside": {service("a", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeExternalName }), false},
		"headless":                {service("a", func(s *v1.Service) { s.Spec.ClusterIP = v1.ClusterIPNone }), true},
		"a load balancer":         {service("a", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeLoadBalancer }), true},
	} {
		if got := Selects(c.service); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPods(t *testing.T) {
	far := pod("far", "a")
	far.Namespace = "far"
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	index, err := pods.NewIndex(factory)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*v1.Pod{pod("p", "a"), pod("q", "b"), pod("r", "a"), far} {
		if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	both := service("a", func(s *v1.Service) { s.Spec.Selector["x"] = "y" })
	every := service("a", func(s *v1.Service) { s.Spec.Selector = map[string]string{} })
	for name, c := range map[string]struct {
		service *v1.Service
		want    string
	}{"by label": {service("a"), "p r"}, "both labels": {both, ""}, "no labels": {every, "p q r"},
		"another": {service("b"), "q"}} {
		var names []string
		for _, p := range Pods(index, c.service) {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOf: a pod's change concerns the Services that select it now or did before, if it is one that endpoints tell.
func TestOf(t *testing.T) {
	far := service("a")
	far.Namespace = "far"
	lister := corelisters.NewServiceLister(indexer(t, service("a"), service("b"), far,
		service("outside", func(s *v1.Service) {
			s.Spec.Type, s.Spec.Selector = v1.ServiceTypeExternalName, map[string]string{"app": "a"}
		}),
		service("manual", func(s *v1.Service) { s.Spec.Selector = nil })))
	of := func(change ...func(*v1.Pod)) *v1.Pod { return pod("p", "a", change...) }
	ready := func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	for name, c := range map[string]struct {
		old, new *v1.Pod
		want     string
	}{
		"added":             {new: of(), want: "ns/a"},
		"deleted":           {old: of(), want: "ns/a"},
		"added, unselected": {new: pod("p", "c")},
		"nothing changed":   {old: of(), new: of()},
		"annotated":         {old: of(), new: of(func(p *v1.Pod) { p.Annotations = map[string]string{"x": "y"} })},
		"restarted": {old: of(),
			new: of(func(p *v1.Pod) { p.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: 1}} })},
		"ready":       {old: of(), new: of(ready), want: "ns/a"},
		"unready":     {old: of(ready), new: of(), want: "ns/a"},
		"terminating": {old: of(), new: of(func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), want: "ns/a"},
		"ended":       {old: of(), new: of(func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }), want: "ns/a"},
		"bound":       {old: of(), new: of(func(p *v1.Pod) { p.Spec.NodeName = "n" }), want: "ns/a"},
		"its address": {old: of(), new: of(func(p *v1.Pod) { p.Status.PodIP = "10.0.0.1" }), want: "ns/a"},
		"its addresses": {old: of(), new: of(func(p *v1.Pod) { p.Status.PodIPs = []v1.PodIP{{IP: "10.0.0.1"}} }),
			want: "ns/a"},
		"another of its name": {old: of(), new: of(func(p *v1.Pod) { p.UID = "v" }), want: "ns/a"},
		"moved to another":    {old: of(), new: pod("p", "b"), want: "ns/a ns/b"},
		"moved away":          {old: of(), new: pod("p", "c"), want: "ns/a"},
		"another label": {old: of(), new: of(func(p *v1.Pod) { p.Labels = map[string]string{"app": "a", "x": "y"} }),
			want: "ns/a"},
	} {
		got := Of(lister, c.old, c.new)
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

func TestIPs(t *testing.T) {
	dual := []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
	for name, c := range map[string]struct {
		status v1.PodStatus
		v4, v6 string
	}{
		"none":            {},
		"only the old":    {status: v1.PodStatus{PodIP: "10.0.0.1"}, v4: "10.0.0.1"},
		"only the old v6": {status: v1.PodStatus{PodIP: "fd00::1"}, v6: "fd00::1"},
		"both families":   {status: v1.PodStatus{PodIP: "10.0.0.1", PodIPs: dual}, v4: "10.0.0.1", v6: "fd00::1"},
		"an empty one":    {status: v1.PodStatus{PodIPs: []v1.PodIP{{}}}},
	} {
		p := &v1.Pod{Status: c.status}
		v4, v6 := strings.Join(IPs(p, v1.IPv4Protocol), " "), strings.Join(IPs(p, v1.IPv6Protocol), " ")
		if v4 != c.v4 || v6 != c.v6 {
			t.Errorf("%s: %q and %q, want %q and %q", name, v4, v6, c.v4, c.v6)
		}
	}
}

func TestFamilies(t *testing.T) {
	for name, c := range map[string]struct {
		spec v1.ServiceSpec
		want string
	}{
		"as it says": {v1.ServiceSpec{IPFamilies: []v1.IPFamily{"IPv6", "IPv4"}, ClusterIP: "10.0.0.1"},
			"[IPv6 IPv4]"},
		"by its address":     {v1.ServiceSpec{ClusterIP: "10.0.0.1"}, "[IPv4]"},
		"by its v6 address":  {v1.ServiceSpec{ClusterIP: "fd00::1"}, "[IPv6]"},
		"headless, untold":   {v1.ServiceSpec{ClusterIP: v1.ClusterIPNone}, "[IPv4]"},
		"nothing to go from": {v1.ServiceSpec{}, "[IPv4]"},
	} {
		if got := fmt.Sprint(Families(&v1.Service{Spec: c.spec})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestPort(t *testing.T) {
	port := func(name string, number int32, protocol v1.Protocol) v1.ContainerPort {
		return v1.ContainerPort{Name: name, ContainerPort: number, Protocol: protocol}
	}
	p := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{
			{Ports: []v1.ContainerPort{port("init", 1, v1.ProtocolTCP)}},
			{RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways),
				Ports: []v1.ContainerPort{port("side", 2, v1.ProtocolTCP), port("http", 3, v1.ProtocolTCP)}},
		},
		Containers: []v1.Container{
			{Ports: []v1.ContainerPort{port("dns", 53, v1.ProtocolUDP)}},
			{Ports: []v1.ContainerPort{port("dns", 54, v1.ProtocolTCP), port("http", 80, v1.ProtocolTCP), port("http", 81,
				v1.ProtocolTCP)}},
		},
	}}
	for _, c := range []struct {
		target   intstr.IntOrString
		protocol v1.Protocol
		want     int32
		ok       bool
	}{
		{intstr.FromInt32(8080), v1.ProtocolTCP, 8080, true},
		{intstr.FromString("http"), v1.ProtocolTCP, 80, true},
		{intstr.FromString("http"), v1.ProtocolUDP, 0, false},
		{intstr.FromString("dns"), v1.ProtocolUDP, 53, true},
		{intstr.FromString("dns"), v1.ProtocolTCP, 54, true},
		{intstr.FromString("side"), v1.ProtocolTCP, 2, true},
		{intstr.FromString("init"), v1.ProtocolTCP, 0, false},
		{intstr.FromString("none"), v1.ProtocolTCP, 0, false},
	} {
		if got, ok := Port(p, &v1.ServicePort{TargetPort: c.target, Protocol: c.protocol}); got != c.want || ok != c.ok {
			t.Errorf("%s %s: %d, %v; want %d, %v", c.target.String(), c.protocol, got, ok, c.want, c.ok)
		}
	}
	if p.Spec.InitContainers[0].Ports[0].Name != "init" {
		t.Error("the pod was changed")
	}
}

func TestHostnameAndTarget(t *testing.T) {
	named := func(hostname, subdomain string) *v1.Pod {
		return pod("p", "db", func(p *v1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = hostname, subdomain })
	}
	far := named("db-0", "db")
	far.Namespace = "far"
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"of its Service": {named("db-0", "db"), "db-0"}, "of another": {named("db-0", "web"), ""},
		"no subdomain": {named("db-0", ""), ""}, "no hostname": {named("", "db"), ""}, "another namespace": {far, ""},
	} {
		if got := Hostname(c.pod, service("db")); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	want := v1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p", UID: "u"}
	if got := *Target(pod("p", "a")); got != want {
		t.Errorf("%+v", got)
	}
}

// TestTrigger: the annotation names the earliest change that it hasn't named yet.
func TestTrigger(t *testing.T) {
	at := func(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339Nano) }
	ready := func(seconds int64) *v1.Pod {
		return pod("p", "a", func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, LastTransitionTime: metav1.NewTime(time.Unix(seconds,
				0))}}
		})
	}
	for name, c := range map[string]struct {
		previous string
		created  int64
		pods     []*v1.Pod
		want     string
	}{
		"a new Service":            {created: 100, want: at(100)},
		"a pod before the Service": {created: 100, pods: []*v1.Pod{ready(50)}, want: at(50)},
		"pods after it":            {created: 100, pods: []*v1.Pod{ready(150), ready(120)}, want: at(100)},
		"the next change": {previous: at(100), created: 100, pods: []*v1.Pod{ready(150), ready(120), ready(90)},
			want: at(120)},
		"nothing new": {previous: at(150), created: 100, pods: []*v1.Pod{ready(150), ready(120)},
			want: at(150)},
		"a pod without a condition": {previous: at(100), created: 100, pods: []*v1.Pod{pod("p", "a")}, want: at(100)},
		"an unreadable annotation":  {previous: "yesterday", created: 100, want: at(100)},
	} {
		s := service("a", func(s *v1.Service) { s.CreationTimestamp = metav1.NewTime(time.Unix(c.created, 0)) })
		if got := Trigger(c.previous, s, c.pods); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
