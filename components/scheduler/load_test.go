package scheduler

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes/fake"

	"quintet.dev/quintet/components/scheduler/queue"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// loaded is the Config that a file and flags make.
func loaded(t *testing.T, file string, flags ...string) (*Config, error) {
	t.Helper()
	return loadedWith(t, file, flags)
}

// loadedWith has plug-ins of users besides.
func loadedWith(t *testing.T, file string, flags []string, options ...Option) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Config{Client: fake.NewClientset()}
	c.Apply(options...)
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(fs)
	if err := fs.Parse(append(flags, "--config="+path)); err != nil {
		t.Fatal(err)
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	_, _, err := build(c)
	return c, err
}

// much is a file that says much.
const much = `
leaderElection: {leaderElect: false, leaseDuration: 30s, resourceName: other}
clientConnection: {kubeconfig: /k, qps: 7, burst: 9}
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
enableProfiling: false
enableContentionProfiling: true
profiles:
- schedulerName: one
  percentageOfNodesToScore: 70
  plugins:
    score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeAffinity, weight: 9}]}
    multiPoint: {disabled: [{name: PodTopologySpread}, {name: VolumeBinding}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 2}]}}
- schedulerName: two
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: NodeName}, {name: PrioritySort}, {name: DefaultBinder}]}`

func TestLoad(t *testing.T) {
	c, err := loaded(t, header+much, "--leader-elect-lease-duration=40s", "--kube-api-qps=8")
	if err != nil {
		t.Fatal(err)
	}
	if c.Leader.Elect || c.Leader.LeaseDuration != 40*time.Second || c.Leader.ResourceName != "other" ||
		c.Leader.RenewDeadline != 10*time.Second {
		t.Errorf("leader %+v", c.Leader)
	}
	if c.Kubeconfig != "/k" || c.QPS != 8 || c.Burst != 9 || c.Percentage != 50 || c.InitialBackoff != 2*time.Second ||
		c.MaxBackoff != 20*time.Second {
		t.Errorf("config %+v", c)
	}
	if c.Profiling.On || !c.Profiling.Contention {
		t.Errorf("profiling %+v", c.Profiling)
	}
	profiles, _, err := build(c)
	if err != nil {
		t.Fatal(err)
	}
	one, two := profiles["one"].cycle, profiles["two"].cycle
	var scores []string
	for _, s := range one.Scores {
		scores = append(scores, s.Name())
		if s.Name() == "NodeAffinity" && s.Weight != 9 {
			t.Errorf("NodeAffinity weighs %d", s.Weight)
		}
	}
	if want := []string{"NodeAffinity", "TaintToleration", "NodeResourcesFit", "InterPodAffinity",
		"DynamicResources", "NodeResourcesBalancedAllocation"}; !slices.Equal(scores, want) {
		t.Errorf("scores %v, want %v", scores, want)
	}
	if one.Percentage != 70 || two.Percentage != 50 || len(two.Filters) != 1 || len(two.Scores) != 0 ||
		len(two.PostFilters) != 0 {
		t.Errorf("profiles %+v, %+v", one, two)
	}
}

func TestLoadRefuses(t *testing.T) {
	cases := map[string]string{
		"nonsense: 1":                 `"nonsense"`,
		"parallelism: 0":              "parallelism",
		"podInitialBackoffSeconds: 0": "podInitialBackoffSeconds",
		"podMaxBackoffSeconds: 0\npodInitialBackoffSeconds: " +
			"30": "back-off",
		"percentageOfNodesToScore: " +
			"101": "percentageOfNodesToScore",
		"leaderElection: {leaderElect: true, resourceLock: " +
			"endpoints}": `"endpoints"`,
		"profiles: [{schedulerName: a}, {schedulerName: " +
			"a}]": `"a" is taken`,
		"profiles: [{schedulerName: " +
			"''}]": "needs a scheduler name",
		"profiles: [{plugins: {filter: {enabled: [{name: " +
			"Mine}]}}}]": `profiles[0].plugins.filter.enabled[0]: plug-in "Mine"`,
		"profiles: [{plugins: {filter: {disabled: [{name: " +
			"Mine}]}}}]": `filter.disabled[0]: plug-in "Mine"`,
		"profiles: [{plugins: {permit: {enabled: [{name: " +
			"NodeName}]}}}]": "plugins.permit",
		"profiles: [{plugins: {preFilter: {disabled: [{name: " +
			"NodeResourcesFit}]}}}]": "preFilter.disabled",
		"profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: " +
			"NodeName}]}}}]": "enabled already",
		"profiles: [{plugins: {placementScore: {disabled: [{name: " +
			"'*'}]}}}]": "placementScore",
		"profiles: [{plugins: {bind: {disabled: [{name: " +
			"'*'}]}}}]": "DefaultBinder",
		"profiles: [{plugins: {queueSort: {disabled: [{name: " +
			"PrioritySort}]}}}]": "PrioritySort",
		"profiles: [{pluginConfig: [{name: Mine, args: " +
			"{}}]}]": `"Mine"`,
		"profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: " +
			"-1}}]}]": "bindTimeoutSeconds",
		"profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: " +
			"0s}}]}]": "bindingTimeout",
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {x: " +
			"1}}]}]": `"x"`,
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: " +
			"Odd}}}]}]": `"Odd"`,
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: " +
			"RequestedToCapacityRatio}}}]}]": "shape",
		"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{topologyKey: z, maxSkew: " +
			"1}]}}]}]": "defaultConstraints",
		"profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: " +
			"101}}]}]": "hardPodAffinityWeight",
		"profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, " +
			"minCandidateNodesAbsolute: 0}}]}]": "minCandidateNodes",
	}
	for file, want := range cases {
		if _, err := loaded(t, header+file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to name %s", file, err, want)
		}
	}
	if _, err := loaded(t, "kind: Other\napiVersion: v1"); err == nil {
		t.Error("another kind was taken")
	}
}

func TestProfilesContention(t *testing.T) {
	for _, c := range []struct {
		file, flag string
		want       bool
	}{
		{"", "", true}, {"enableContentionProfiling: false", "", false}, {"", "--contention-profiling=false", false},
		{"enableContentionProfiling: true", "--contention-profiling=false", false},
		{"enableContentionProfiling: false", "--contention-profiling", true},
	} {
		got, err := loaded(t, header+c.file, strings.Fields(strings.ReplaceAll(c.flag, "", ""))...)
		if err != nil || !got.Profiling.On || got.Profiling.Contention != c.want {
			t.Errorf("file %q, flag %s: %+v, %v", c.file, c.flag, got, err)
		}
	}
}

func TestNeedsAPIServer(t *testing.T) {
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("got %v", err)
	}
}

// TestNamesFlags: what can't be served with is named before the API server is asked for anything.
func TestNamesFlags(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for want, flags := range map[string][]string{
		"--tls-cert-file and":                {"--tls-cert-file=x"},
		"--tls-private-key-file go together": {"--tls-private-key-file=x"},
		"--tls-private-key-file: certificate " + missing: {"--tls-cert-file=" + missing,
			"--tls-private-key-file=" + missing},
		"--tls-cipher-suites": {"--tls-cipher-suites=ROT13"},
	} {
		c := Config{Client: fake.NewClientset()}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.AddFlags(fs)
		if err := fs.Parse(flags); err != nil {
			t.Fatal(err)
		}
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", flags, err, want)
		}
	}
}

// FuzzDecode: no file makes the scheduler panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(header + "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: 2}]}}}]"))
	f.Add([]byte("{}"))
	client := fake.NewClientset()
	f.Fuzz(func(_ *testing.T, data []byte) {
		file, err := decode(data)
		if err != nil {
			return
		}
		c := &Config{Client: client}
		c.handles = c.newHandles()
		if c.apply(file) == nil {
			for _, p := range c.Profiles {
				_, _ = c.buildProfile(p, queue.Hints{})
			}
		}
	})
}
