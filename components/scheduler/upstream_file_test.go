package scheduler

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

// upstreamDump is the part of what upstream's scheduler writes with --write-config-to that names its plug-ins.
const upstreamDump = `
clientConnection: {acceptContentTypes: "", burst: 100, contentType: application/vnd.kubernetes.protobuf, kubeconfig: /k, qps: 50}
enableContentionProfiling: true
enableProfiling: true
leaderElection: {leaderElect: false, leaseDuration: 15s, renewDeadline: 10s, resourceLock: leases,
  resourceName: kube-scheduler, resourceNamespace: kube-system, retryPeriod: 2s}
parallelism: 4
percentageOfNodesToScore: 0
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
delayCacheUntilActive: true
profiles:
- schedulerName: other
  plugins:
    bind: {}
    filter: {}
    permit: {}
    placementGenerate: {}
    placementScore: {}
    postBind: {}
    multiPoint:
      enabled: [{name: SchedulingGates, weight: 0}, {name: PrioritySort, weight: 0}, {name: NodeUnschedulable, weight: 0},
        {name: NodeName, weight: 0}, {name: TaintToleration, weight: 3}, {name: NodeAffinity, weight: 2},
        {name: NodePorts, weight: 0}, {name: NodeResourcesFit, weight: 1}, {name: VolumeRestrictions, weight: 0},
        {name: NodeVolumeLimits, weight: 0}, {name: VolumeBinding, weight: 0}, {name: VolumeZone, weight: 0},
        {name: PodTopologySpread, weight: 2}, {name: InterPodAffinity, weight: 2}, {name: DynamicResources, weight: 2},
        {name: DefaultPreemption, weight: 0}, {name: NodeResourcesBalancedAllocation, weight: 1},
        {name: ImageLocality, weight: 1}, {name: DefaultBinder, weight: 0}, {name: NodeDeclaredFeatures, weight: 0}]
  pluginConfig:
  - {name: VolumeBinding, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: VolumeBindingArgs, bindTimeoutSeconds: 300}}
  - {name: DynamicResources, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: DynamicResourcesArgs, filterTimeout: 10s, bindingTimeout: 10m0s}}
`

func TestLoadsUpstreamsDump(t *testing.T) {
	c, err := loaded(t, header+upstreamDump)
	if err != nil {
		t.Fatal(err)
	}
	if c.Parallelism != 4 || !c.DelayCacheUntilActive {
		t.Errorf("parallelism %d, delayed %v", c.Parallelism, c.DelayCacheUntilActive)
	}
	profiles, _, err := build(c)
	if err != nil {
		t.Fatal(err)
	}
	got := commits(profiles["other"])
	want := []string{"reserve VolumeBinding", "reserve DynamicResources", "preBind VolumeBinding",
		"preBind DynamicResources", "bind DefaultBinder"}
	if !slices.Equal(got, want) {
		t.Errorf("the commit has %q, want %q", got, want)
	}
}

// commits lists the plug-ins of the commit.
func commits(p *profile) []string {
	var names []string
	for _, r := range p.commit.Reserves {
		names = append(names, "reserve "+r.Name())
	}
	for _, b := range p.commit.PreBinds {
		names = append(names, "preBind "+b.Name())
	}
	for _, b := range p.commit.Binds {
		names = append(names, "bind "+b.Name())
	}
	return names
}

// TestPointsAreConfigured: a point turns a plug-in off, and what it turns on itself comes first.
func TestPointsAreConfigured(t *testing.T) {
	c, err := loaded(t, header+`
profiles:
- plugins:
    reserve: {disabled: [{name: VolumeBinding}]}
    preBind: {disabled: [{name: "*"}]}
    postFilter: {enabled: [{name: DefaultPreemption}]}
    filter: {enabled: [{name: VolumeZone}, {name: NodePorts}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	profiles, _, err := build(c)
	if err != nil {
		t.Fatal(err)
	}
	p := profiles["default-scheduler"]
	if got, want := commits(p), []string{"reserve DynamicResources", "bind DefaultBinder"}; !slices.Equal(got, want) {
		t.Errorf("the commit has %q, want %q", got, want)
	}
	if first, second := p.cycle.Filters[0].Name(), p.cycle.Filters[1].Name(); first != "VolumeZone" ||
		second != "NodePorts" {
		t.Errorf("the first filters are %s and %s", first, second)
	}
	if len(p.cycle.Filters) != 14 {
		t.Errorf("%d filters", len(p.cycle.Filters))
	}
	if p.cycle.PostFilters[0].Name() != "DefaultPreemption" || len(p.cycle.PostFilters) != 2 {
		t.Errorf("post-filters %v", p.cycle.PostFilters)
	}
}

// TestWriteConfigTo: what is written loads again, and nothing is scheduled.
func TestWriteConfigTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.yaml")
	s, err := New(Config{Client: fake.NewClientset(), WriteConfigTo: path, Parallelism: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := loaded(t, string(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if c.Parallelism != 3 || len(c.Profiles) != 1 {
		t.Errorf("read back %+v", c)
	}
}

func TestFlags(t *testing.T) {
	c, err := loaded(t, header, "--pod-max-in-unschedulable-pods-duration=7m",
		"--feature-gates=NodeDeclaredFeatures=true,GangScheduling=false")
	if err != nil || c.MaxUnschedulable != 7*time.Minute {
		t.Errorf("%v, %v", c, err)
	}
	for text, want := range map[string]string{
		"GangScheduling=true": "can only be false", "Mine=true": "unrecognized feature gate: Mine",
		"GangScheduling": "missing or invalid bool value", "AllAlpha=true": "can't be turned on",
	} {
		var g featureGates
		if err := g.Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
