package api

import (
	"context"
	"encoding/json"
	"slices"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

var codecs = scheme.Codecs.WithoutConversion()

func table(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	for _, name := range []string{"a", "b"} {
		_, err := maps.Create(ctx, configMap(name, map[string]string{"app": "table"}), metav1.CreateOptions{})
		t.Must(err, "create")
	}
	raw, err := t.Client.CoreV1().RESTClient().Get().Namespace(t.Namespace).Resource("configmaps").Param("labelSelector",
		"app=table").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").Do(ctx).Raw()
	t.Must(err, "list as a table")
	var got metav1.Table
	t.Must(json.Unmarshal(raw, &got), "decode the table")
	t.Expect(got.Kind).To(Equal("Table"))
	var columns []string
	for _, c := range got.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	t.Expect(columns).To(Equal([]string{"Name", "Data", "Age"}))
	t.Expect(got.Rows).To(HaveLen(2))
	for i, name := range []string{"a", "b"} {
		t.Expect(got.Rows[i].Cells[0]).To(Equal(name))
		t.Expect(got.Rows[i].Cells[1]).To(BeEquivalentTo(1))
		var partial metav1.PartialObjectMetadata
		t.Must(json.Unmarshal(got.Rows[i].Object.Raw, &partial), "decode the row's object")
		t.Expect(partial.Kind).To(Equal("PartialObjectMetadata"))
		t.Expect(partial.Name).To(Equal(name))
	}
}

// apiResources is what one form of discovery says: resource names by group version, with their verbs.
type apiResources map[string][]string

func discovery(ctx context.Context, t *suite.T) {
	client := t.Client.Discovery()
	plain := apiResources{}
	groups, err := client.ServerGroups()
	t.Must(err, "list the groups")
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			raw, err := t.Client.Discovery().RESTClient().Get().AbsPath(prefix(version.GroupVersion)).Do(ctx).Raw()
			t.Must(err, "discover %s", version.GroupVersion)
			var list metav1.APIResourceList
			t.Must(json.Unmarshal(raw, &list), "decode %s", version.GroupVersion)
			plain.add(version.GroupVersion, list.APIResources)
		}
	}
	_, aggregatedLists, err := client.ServerGroupsAndResources() // requests the aggregated form first
	t.Must(err, "aggregated discovery")
	aggregated := apiResources{}
	for _, list := range aggregatedLists {
		aggregated.add(list.GroupVersion, list.APIResources)
	}
	t.Expect(aggregated).To(Equal(plain))
	t.Expect(plain["v1"]).To(ContainElement(HavePrefix("pods ")))
	t.Expect(plain["apps/v1"]).To(ContainElement(HavePrefix("deployments/scale ")))
}

func prefix(groupVersion string) string {
	if groupVersion == "v1" {
		return "/api/v1"
	}
	return "/apis/" + groupVersion
}

func (r apiResources) add(groupVersion string, resources []metav1.APIResource) {
	for _, resource := range resources {
		verbs := slices.Sorted(slices.Values(resource.Verbs))
		text, _ := json.Marshal(verbs)
		r[groupVersion] = append(r[groupVersion], resource.Name+" "+string(text))
	}
	slices.Sort(r[groupVersion])
}

func openAPI(_ context.Context, t *suite.T) {
	paths, err := t.Client.Discovery().OpenAPIV3().Paths()
	t.Must(err, "list the documents")
	for path, kinds := range map[string][]string{"api/v1": {"Pod", "Service", "ConfigMap"},
		"apis/apps/v1": {"Deployment", "ReplicaSet"}} {
		group, ok := paths[path]
		t.Expect(ok).To(BeTrue(), "no document for %s", path)
		raw, err := group.Schema("application/json")
		t.Must(err, "read the document of %s", path)
		var document struct {
			Components struct {
				Schemas map[string]struct {
					GVK []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
				} `json:"schemas"`
			} `json:"components"`
		}
		t.Must(json.Unmarshal(raw, &document), "decode the document of %s", path)
		var found []string
		for _, schema := range document.Components.Schemas {
			for _, gvk := range schema.GVK {
				found = append(found, gvk.Kind)
			}
		}
		for _, kind := range kinds {
			t.Expect(found).To(ContainElement(kind), path)
		}
	}
}

func twoVersions(ctx context.Context, t *suite.T) {
	old := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "both"},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1",
				Kind: "Deployment", Name: "web"},
			MinReplicas:                    ptr.To[int32](2),
			MaxReplicas:                    5,
			TargetCPUUtilizationPercentage: ptr.To[int32](70),
		},
	}
	_, err := t.Client.AutoscalingV1().HorizontalPodAutoscalers(t.Namespace).Create(ctx, old, metav1.CreateOptions{})
	t.Must(err, "create as v1")
	newer, err := t.Client.AutoscalingV2().HorizontalPodAutoscalers(t.Namespace).Get(ctx, "both", metav1.GetOptions{})
	t.Must(err, "get as v2")
	t.Expect(newer.Spec.MaxReplicas).To(BeEquivalentTo(5))
	t.Expect(newer.Spec.Metrics).To(HaveLen(1))
	t.Expect(*newer.Spec.Metrics[0].Resource.Target.AverageUtilization).To(BeEquivalentTo(70))
	newer.Spec.MaxReplicas = 9
	newer.ResourceVersion = "" // its controller may write the status meanwhile
	_, err = t.Client.AutoscalingV2().HorizontalPodAutoscalers(t.Namespace).Update(ctx, newer, metav1.UpdateOptions{})
	t.Must(err, "update as v2")
	again, err := t.Client.AutoscalingV1().HorizontalPodAutoscalers(t.Namespace).Get(ctx, "both", metav1.GetOptions{})
	t.Must(err, "get as v1")
	t.Expect(again.Spec.MaxReplicas).To(BeEquivalentTo(9))
	t.Expect(*again.Spec.TargetCPUUtilizationPercentage).To(BeEquivalentTo(70))
}
