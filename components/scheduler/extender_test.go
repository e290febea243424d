package scheduler

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/utils/ptr"
)

// process is an extender; verbs that it lacks are answered with 500. It is safe for concurrent use.
type process struct {
	filter     func(*extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult
	prioritize func(*extenderv1.ExtenderArgs) extenderv1.HostPriorityList
	preempt    func(*extenderv1.ExtenderPreemptionArgs) *extenderv1.ExtenderPreemptionResult
	bind       func(*extenderv1.ExtenderBindingArgs) *extenderv1.ExtenderBindingResult
}

// ServeHTTP implements http.Handler.
func (p *process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch {
	case r.URL.Path == "/ext/filter" && p.filter != nil:
		answer(w, r, p.filter)
	case r.URL.Path == "/ext/prioritize" && p.prioritize != nil:
		answer(w, r, p.prioritize)
	case r.URL.Path == "/ext/preempt" && p.preempt != nil:
		answer(w, r, p.preempt)
	case r.URL.Path == "/ext/bind" && p.bind != nil:
		answer(w, r, p.bind)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func answer[A, R any](w http.ResponseWriter, r *http.Request, by func(*A) R) {
	var args A
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(by(&args))
}

// extended starts a scheduler with an extender, whose configuration change completes.
func extended(t *testing.T, p *process, change func(*configv1.Extender), nodes ...string) *cluster {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	config := configv1.Extender{URLPrefix: server.URL + "/ext/"}
	change(&config)
	client := newClient()
	for _, name := range nodes {
		if err := client.Tracker().Add(newNode(name, "4")); err != nil {
			t.Fatal(err)
		}
	}
	return startOn(t, Config{Extenders: []configv1.Extender{config}}, client)
}

func namesIn(list *v1.NodeList) []string {
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// TestExtenderFilters: nodes that the answer leaves out are refused for its reasons; both forms of nodes are
// understood.
func TestExtenderFilters(t *testing.T) {
	for _, cached := range []bool{false, true} {
		p := &process{filter: func(args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
			out := &extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{"a": "no licence"},
				FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"c": "never"}}
			fits := []string{}
			if args.Pod.Name == "fits" {
				fits = append(fits, "b")
			} else {
				out.FailedNodes["b"] = "no licence"
			}
			if !cached {
				if got := namesIn(args.Nodes); !slices.Equal(got, []string{"a", "b", "c"}) || args.NodeNames != nil {
					out.Error = "bad arguments"
				}
				out.Nodes = &v1.NodeList{}
				for _, name := range fits {
					out.Nodes.Items = append(out.Nodes.Items, v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
				}
				return out
			}
			if args.Nodes != nil || len(*args.NodeNames) != 3 {
				out.Error = "bad arguments"
			}
			out.NodeNames = &fits
			return out
		}}
		c := extended(t, p, func(e *configv1.Extender) { e.FilterVerb, e.NodeCacheCapable = "filter", cached },
			"a", "b", "c")
		c.createPod(newPod("fits", "1"))
		c.bound("fits", "b")
		c.createPod(newPod("p", "1"))
		c.refused("p", "0/3 nodes are available: 1 never, 2 no licence. no new claims to deallocate, preemption: "+
			"0/3 nodes are available: 1 Preemption is not helpful for scheduling, "+
			"2 No preemption victims found for incoming pod.")
		c.stop()
	}
}

// TestExtenderFails: an answer that is an error, or of no use, fails the attempt, unless the extender is ignorable.
func TestExtenderFails(t *testing.T) {
	for name, c := range map[string]struct {
		filter func(*extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult
		want   string
	}{
		"no such verb": {nil, "failed filter with extender at URL "},
		"error": {func(*extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
			return &extenderv1.ExtenderFilterResult{Error: "out of order"}
		}, "out of order"},
		"a node from nowhere": {func(*extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
			return &extenderv1.ExtenderFilterResult{NodeNames: &[]string{"x"}}
		}, `extender "http://`},
	} {
		for _, ignorable := range []bool{false, true} {
			cluster := extended(t, &process{filter: c.filter}, func(e *configv1.Extender) {
				e.FilterVerb, e.Ignorable, e.NodeCacheCapable = "filter", ignorable, true
			}, "a")
			cluster.createPod(newPod("p", "1"))
			if ignorable {
				cluster.bound("p", "a")
				cluster.stop()
				continue
			}
			cluster.await("p", name, func(p *v1.Pod) bool {
				return slices.ContainsFunc(p.Status.Conditions, func(is v1.PodCondition) bool {
					return is.Reason == v1.PodReasonSchedulerError && strings.HasPrefix(is.Message, c.want)
				})
			})
			cluster.stop()
		}
	}
}

// TestExtenderPrioritizes: its scores count by its weight; one that fails at it does no harm.
func TestExtenderPrioritizes(t *testing.T) {
	p := &process{prioritize: func(args *extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
		if args.Pod.Name == "p" {
			return extenderv1.HostPriorityList{{Host: "a", Score: 1}, {Host: "b", Score: 10}}
		}
		return extenderv1.HostPriorityList{{Host: "a", Score: 10}, {Host: "b", Score: 1}}
	}}
	c := extended(t, p, func(e *configv1.Extender) { e.PrioritizeVerb, e.Weight = "prioritize", 50 }, "a", "b")
	for _, name := range []string{"p", "q"} {
		c.createPod(newPod(name, "1"))
		c.bound(name, map[string]string{"p": "b", "q": "a"}[name])
	}
	broken := extended(t, &process{}, func(e *configv1.Extender) { e.PrioritizeVerb, e.Weight = "prioritize", 1 },
		"a", "b")
	broken.createPod(newPod("p", "1"))
	broken.await("p", "bound", func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
}

// TestExtenderBinds: it binds the pods whose resources it manages, which nodes are not checked for; others are bound
// as usual.
func TestExtenderBinds(t *testing.T) {
	var c *cluster
	p := &process{bind: func(args *extenderv1.ExtenderBindingArgs) *extenderv1.ExtenderBindingResult {
		pod := c.pod(args.PodName)
		if args.PodNamespace != "default" || args.PodUID != pod.UID {
			return &extenderv1.ExtenderBindingResult{Error: "another pod"}
		}
		pod.Spec.NodeName, pod.Annotations = args.Node, map[string]string{"bound": "by the extender"}
		if err := c.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, "default"); err != nil {
			return &extenderv1.ExtenderBindingResult{Error: err.Error()}
		}
		return &extenderv1.ExtenderBindingResult{}
	}}
	c = extended(t, p, func(e *configv1.Extender) {
		e.BindVerb = "bind"
		e.ManagedResources = []configv1.ExtenderManagedResource{{Name: "example.com/fpga", IgnoredByScheduler: true}}
	}, "a")
	managed := newPod("managed", "1")
	managed.Spec.Containers[0].Resources.Requests["example.com/fpga"] = resource.MustParse("1")
	c.createPod(managed)
	c.bound("managed", "a")
	if got := c.pod("managed").Annotations["bound"]; got == "" {
		t.Error("the extender did not bind its pod")
	}
	c.createPod(newPod("other", "1"))
	c.bound("other", "a")
	if got := c.pod("other").Annotations["bound"]; got != "" {
		t.Error("the extender bound a pod that is not its own")
	}
}

// TestExtenderPreempts: it has the last word on victims.
func TestExtenderPreempts(t *testing.T) {
	for _, cached := range []bool{false, true} {
		p := &process{preempt: func(args *extenderv1.ExtenderPreemptionArgs) *extenderv1.ExtenderPreemptionResult {
			uid := ""
			if cached {
				uid = args.NodeNameToMetaVictims["b"].Pods[0].UID
			} else {
				uid = string(args.NodeNameToVictims["b"].Pods[0].UID)
			}
			return &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{
				"b": {Pods: []*extenderv1.MetaPod{{UID: uid}}}}}
		}}
		c := extended(t, p, func(e *configv1.Extender) { e.PreemptVerb, e.NodeCacheCapable = "preempt", cached }, "a", "b")
		for _, node := range []string{"a", "b"} {
			low := newPod("low-"+node, "4")
			low.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
			c.createPod(low)
			c.await("low-"+node, "bound", func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
		}
		high := newPod("high", "4")
		high.Spec.Priority = ptr.To[int32](10)
		c.createPod(high)
		c.bound("high", "b")
		c.stop()
	}
}

// TestExtenderOverTLS: its certificate is checked against the authority of tlsConfig, and a slow answer is not awaited.
func TestExtenderOverTLS(t *testing.T) {
	slow := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow/filter" {
			<-slow
			return
		}
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &[]string{"a"}})
	}))
	defer server.Close()
	defer close(slow)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, c := range map[string]struct {
		path string
		tls  *configv1.ExtenderTLSConfig
		want string
	}{
		"known authority":   {"", &configv1.ExtenderTLSConfig{CAData: ca, ServerName: "example.com"}, ""},
		"no authority":      {"", nil, ""},
		"unknown authority": {"", &configv1.ExtenderTLSConfig{CAData: otherAuthority(t)}, "certificate"},
		"slow":              {"/slow", nil, "Client.Timeout exceeded"},
	} {
		config := configv1.Extender{URLPrefix: server.URL + c.path, FilterVerb: "filter", EnableHTTPS: true, TLSConfig: c.tls,
			NodeCacheCapable: true, HTTPTimeout: metav1.Duration{Duration: time.Minute}}
		if c.path != "" {
			config.HTTPTimeout.Duration = 10 * time.Millisecond
		}
		cluster := start(t, Config{Extenders: []configv1.Extender{config}}, newNode("a", "4"))
		cluster.createPod(newPod("p", "1"))
		cluster.await("p", name, func(p *v1.Pod) bool {
			if c.want == "" {
				return p.Spec.NodeName == "a"
			}
			return slices.ContainsFunc(p.Status.Conditions, func(is v1.PodCondition) bool {
				return is.Reason == v1.PodReasonSchedulerError && strings.Contains(is.Message, c.want)
			})
		})
		cluster.stop()
	}
}

// otherAuthority has signed no certificate of an extender.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	ca, _, err := cert.GenerateSelfSignedCertKey("other", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TestExtenderFile: extenders come from the configuration file, and mistakes in them are errors that name the field.
func TestExtenderFile(t *testing.T) {
	for fields, want := range map[string]string{
		"{urlPrefix: 'http://x', prioritizeVerb: " +
			"p}": "extenders[0].weight",
		"{urlPrefix: 'http://x', bindVerb: b}, {urlPrefix: 'http://y', bindVerb: " +
			"b}": "only one extender",
		"{urlPrefix: 'http://x', managedResources: [{name: " +
			"cpu}]}": "extenders[0].managedResources[0].name",
		"{urlPrefix: 'http://x', managedResources: [{name: a.com/b}, {name: a.com/b}]}": "duplicate",
		"{urlPrefix: 'http://x', httpTimeout: " +
			"-1s}": "extenders[0].httpTimeout",
		"{urlPrefix: 'http://x', tlsConfig: {caFile: /nowhere}, enableHTTPS: " +
			"true}": "extenders[0].tlsConfig",
		"{urlPrefix: 'http://x', filterVerb: f, prioritizeVerb: p, weight: 2, ignorable: true, bindVerb: b}": "",
	} {
		file := filepath.Join(t.TempDir(), "config")
		text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: [" + fields + "]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{Client: newClient(), File: file})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", fields, err, want)
		}
		if err == nil {
			shown := s.config.configuration().Extenders
			if len(shown) != 1 || shown[0].Weight != 2 || len(s.profiles[v1.DefaultSchedulerName].commit.Binds) != 2 {
				t.Errorf("extenders %+v", shown)
			}
		}
	}
}

// TestExtenderBlocks: events are taken in while an extender does not answer, and count from the next decision on.
func TestExtenderBlocks(t *testing.T) {
	asked, answers := make(chan struct{}), make(chan struct{})
	p := &process{filter: func(args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
		if args.Pod.Name == "first" {
			asked <- struct{}{}
			<-answers
		}
		return &extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames}
	}}
	c := extended(t, p, func(e *configv1.Extender) { e.FilterVerb, e.NodeCacheCapable = "filter", true }, "a")
	c.createPod(newPod("first", "3"))
	<-asked
	s := c.scheduler
	s.addNode(newNode("b", "4")) // blocks the test if it waits for the extender
	s.state.mu.Lock()
	if len(s.state.kept) == 0 {
		t.Error("the snapshot changed while the extender was asked")
	}
	s.state.mu.Unlock()
	close(answers)
	c.bound("first", "a")
	c.createPod(newPod("second", "3"))
	c.bound("second", "b")
	c.stop()
}
