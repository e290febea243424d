package apps

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

// TestFormerVersions: objects that lie in the store in versions which are gone keep the defaults of these.
func TestFormerVersions(t *testing.T) {
	const template = "spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: i}]}}}"
	kinds := map[string]*api.Kind{}
	for _, k := range Kinds(api.Deps{}) {
		kinds[k.Name] = k
	}
	for _, c := range []struct {
		version, kind, set string
		want               []string
	}{
		{"apps/v1beta2", "Deployment", "", []string{"spec.revisionHistoryLimit: 10", "spec.selector: null"}},
		{"apps/v1beta1", "Deployment", "", []string{
			"spec.revisionHistoryLimit: 2", "spec.progressDeadlineSeconds: 600", "spec.selector.matchLabels.app: a",
			"metadata.labels.app: a", "spec.strategy.rollingUpdate.maxSurge: 25%",
		}},
		{"apps/v1beta1", "Deployment", "metadata.labels: {b: c}", []string{"metadata.labels.app: null"}},
		{"apps/v1beta1", "Deployment", "spec.rollbackTo.revision: 4",
			[]string{`metadata.annotations["deprecated.deployment.rollback.to"]: 4`}},
		{"extensions/v1beta1", "Deployment", "", []string{
			"spec.revisionHistoryLimit: 2147483647", "spec.progressDeadlineSeconds: 2147483647",
			"spec.strategy.rollingUpdate.maxSurge: 1", "spec.strategy.rollingUpdate.maxUnavailable: 1",
		}},
		{"extensions/v1beta1", "Deployment", "spec.strategy.type: Recreate",
			[]string{"spec.strategy.rollingUpdate: null"}},
		{"extensions/v1beta1", "ReplicaSet", "", []string{"spec.selector.matchLabels.app: a", "spec.replicas: 1"}},
		{"extensions/v1beta1", "DaemonSet", "spec.templateGeneration: 6", []string{
			"spec.updateStrategy.type: OnDelete", "spec.selector.matchLabels.app: a",
			`metadata.annotations["deprecated.daemonset.template.generation"]: 6`,
		}},
		{"apps/v1beta2", "DaemonSet", "", []string{"spec.updateStrategy.type: RollingUpdate", "spec.selector: null"}},
		{"apps/v1beta1", "StatefulSet", "status: {replicas: 2, observedGeneration: 5}", []string{
			"spec.updateStrategy.type: OnDelete", "spec.selector.matchLabels.app: a", "status.observedGeneration: 5",
			"status.replicas: 2",
		}},
		{"apps/v1beta2", "StatefulSet", "", []string{"spec.updateStrategy.type: RollingUpdate"}},
	} {
		var former *api.Version
		for i := range kinds[c.kind].RemovedVersions {
			if v := &kinds[c.kind].RemovedVersions[i]; v.String() == c.version {
				former = v
			}
		}
		if former == nil {
			t.Fatalf("no %s %s", c.version, c.kind)
		}
		obj := former.New()
		content := kindtest.Change(t, kindtest.Parse(t, template), kindtest.ParseChange(t, c.set))
		if err := yaml.UnmarshalStrict([]byte(kindtest.Write(t, content)), obj); err != nil {
			t.Fatal(err)
		}
		hub, err := former.ToHub(obj)
		if err != nil {
			t.Fatal(err)
		}
		got, err := runtime.DefaultUnstructuredConverter.ToUnstructured(hub)
		if err != nil {
			t.Fatal(err)
		}
		kindtest.CheckValues(t, c.version+" "+c.kind+" "+c.set, got, c.want)
	}
}
