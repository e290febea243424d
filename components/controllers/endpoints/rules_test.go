package endpoints

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func selected(ip string, ready bool) *v1.Pod {
	p := pod(ip, ready, 8080)
	p.Labels = map[string]string{"app": "web"}
	return p
}

func run(t *testing.T, objects ...runtime.Object) (*fake.Clientset, *record.FakeRecorder, func(want string)) {
	t.Helper()
	client := runnertest.NewClient(objects...)
	events := runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller,
		error) {
		return New(env, 0)
	})
	return client, events, func(want string) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			e, err := client.CoreV1().Endpoints("ns").Get(t.Context(), "web", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return want == "gone", "gone"
			}
			return err == nil && show(e.Subsets) == want, fmt.Sprint(show(e.Subsets), err)
		})
	}
}

// TestFollowsItsService through pods that come, get ready and go, until it is deleted.
func TestFollowsItsService(t *testing.T) {
	client, _, expect := run(t, service(nil), selected("10.1.0.1", true))
	expect("10.1.0.1 | admin=9 http=8080;")
	pods, services := client.CoreV1().Pods("ns"), client.CoreV1().Services("ns")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := pods.Create(t.Context(), selected("10.1.0.2", false), metav1.CreateOptions{})
	check(err)
	expect("10.1.0.1 | 10.1.0.2 admin=9 http=8080;")
	_, err = pods.Update(t.Context(), selected("10.1.0.2", true), metav1.UpdateOptions{})
	check(err)
	expect("10.1.0.1 10.1.0.2 | admin=9 http=8080;")
	check(pods.Delete(t.Context(), "10.1.0.1", metav1.DeleteOptions{}))
	expect("10.1.0.2 | admin=9 http=8080;")
	check(client.CoreV1().Endpoints("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	expect("10.1.0.2 | admin=9 http=8080;")
	check(services.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	expect("gone")
}

// TestOthersStay: those that another client writes, with a Service that selects nothing or with none.
func TestOthersStay(t *testing.T) {
	mine := &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Subsets: []v1.EndpointSubset{{Addresses: []v1.EndpointAddress{{IP: "192.0.2.1"}}}}}
	lock := mine.DeepCopy()
	lock.Name = "lock"
	left := mine.DeepCopy()
	left.Name, left.Labels = "left", map[string]string{managedByLabel: managedBy}
	client, _, expect := run(t, service(func(s *v1.Service) { s.Spec.Selector = nil }), mine, lock, left,
		selected("10.1.0.1", true))
	runnertest.Eventually(t, func() (bool, string) { // what the controller left behind goes
		all, err := client.CoreV1().Endpoints("ns").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(all.Items) == 2, fmt.Sprint(all, err)
	})
	expect("192.0.2.1 |;")
}

// TestRefused tells what the API server refuses.
func TestRefused(t *testing.T) {
	endpoints := schema.GroupResource{Resource: "endpoints"}
	for verb, want := range map[string]string{
		"create": `Warning FailedToCreateEndpoint Failed to create endpoint for service ns/web: ` +
			`endpoints "web" is forbidden: no`,
		"update": `Warning FailedToUpdateEndpoint Failed to update endpoint ns/web: endpoints "web" is forbidden: no`,
	} {
		objects := []runtime.Object{selected("10.1.0.1", true)}
		if verb == "update" {
			objects = append(objects, &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})
		}
		client, events, _ := run(t, objects...)
		client.PrependReactor(verb, "endpoints", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(endpoints, "web", errors.New("no"))
		})
		if _, err := client.CoreV1().Services("ns").Create(t.Context(), service(nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		runnertest.Saw(t, events, want)
	}
}

func TestHostnamesAndFamilies(t *testing.T) {
	dual := pod("10.1.0.1", true, 8080)
	dual.Status.PodIPs = append(dual.Status.PodIPs, v1.PodIP{IP: "fd00::1"})
	dual.Spec.Hostname, dual.Spec.Subdomain = "first", "web"
	for name, c := range map[string]struct {
		families []v1.IPFamily
		want     string
	}{
		"the first family": {[]v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}, "fd00::1 | admin=9 http=8080;"},
		"only one":         {[]v1.IPFamily{v1.IPv4Protocol}, "10.1.0.1 | admin=9 http=8080;"},
	} {
		got, _ := subsetsOf(service(func(s *v1.Service) { s.Spec.IPFamilies = c.families }), []*v1.Pod{dual})
		address := got[0].Addresses[0]
		if show(got) != c.want || address.Hostname != "first" || *address.NodeName != "n1" ||
			address.TargetRef.Name != "10.1.0.1" {
			t.Errorf("%s: %s, %+v", name, show(got), address)
		}
	}
	only4, _ := subsetsOf(service(func(s *v1.Service) { s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol} }),
		[]*v1.Pod{pod("10.1.0.1", true, 1)})
	if len(only4) != 0 {
		t.Errorf("a pod without the family: %s", show(only4))
	}
}

func TestTruncated(t *testing.T) {
	many := func(n int) []v1.EndpointAddress {
		var all []v1.EndpointAddress
		for i := range n {
			all = append(all, v1.EndpointAddress{IP: fmt.Sprint(i)})
		}
		return all
	}
	for name, c := range map[string]struct {
		ready, unready [2]int
		want           string
		truncated      bool
	}{
		"exactly full":              {[2]int{600, 400}, [2]int{0, 0}, "600+0 400+0 ", false},
		"one too many":              {[2]int{600, 401}, [2]int{0, 0}, "600+0 400+0 ", true},
		"ready ones of all before":  {[2]int{100, 850}, [2]int{70, 5}, "100+50 850+0 ", true},
		"a subset that is left out": {[2]int{1000, 0}, [2]int{0, 9}, "1000+0 ", true},
	} {
		var subsets []v1.EndpointSubset
		for i := range 2 {
			subsets = append(subsets, v1.EndpointSubset{Addresses: many(c.ready[i]), NotReadyAddresses: many(c.unready[i])})
		}
		got, truncated := truncate(subsets)
		text := ""
		for _, s := range got {
			text += fmt.Sprintf("%d+%d ", len(s.Addresses), len(s.NotReadyAddresses))
		}
		if text != c.want || truncated != c.truncated {
			t.Errorf("%s: %s, %v; want %s, %v", name, text, truncated, c.want, c.truncated)
		}
	}
}
