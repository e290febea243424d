package openapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// knownIn says of the types that every group has that they are known in these versions, which must be sorted.
func knownIn(schemas map[string]json.RawMessage, versions []schema.GroupVersion) error {
	const extension = "x-kubernetes-group-version-kind"
	for _, name := range []string{"DeleteOptions", "WatchEvent"} {
		text, ok := schemas[metaModel+name]
		if !ok {
			continue
		}
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &fields); err != nil {
			return err
		}
		kinds := make([]object, len(versions))
		for i, v := range versions {
			kinds[i] = object{"group": v.Group, "version": v.Version, "kind": name}
		}
		var err error
		if fields[extension], err = json.Marshal(kinds); err != nil {
			return err
		}
		if schemas[metaModel+name], err = json.Marshal(fields); err != nil {
			return err
		}
	}
	return nil
}

// clientVersions are those that clients of the release know, of which documents of custom resources tell.
func clientVersions() []schema.GroupVersion {
	var out []schema.GroupVersion
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gvk.Kind == "DeleteOptions" {
			out = append(out, gvk.GroupVersion())
		}
	}
	return sorted(out)
}

// serverVersions are those that the release's server knows, served or not, of which the one document of v2 tells.
func serverVersions() []schema.GroupVersion {
	return sorted(append(clientVersions(), []schema.GroupVersion{
		{Group: "admission.k8s.io", Version: "v1"}, {Group: "admission.k8s.io", Version: "v1beta1"},
		{Group: "apiextensions.k8s.io", Version: "v1"}, {Group: "apiextensions.k8s.io", Version: "v1beta1"},
		{Group: "apiregistration.k8s.io", Version: "v1"}, {Group: "apiregistration.k8s.io", Version: "v1beta1"},
		{Group: "imagepolicy.k8s.io", Version: "v1alpha1"},
	}...))
}

func sorted(versions []schema.GroupVersion) []schema.GroupVersion {
	versions = slices.DeleteFunc(versions,
		func(v schema.GroupVersion) bool { return v.Group == metav1.GroupName || v.Version == "__internal" })
	slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version))
	})
	return slices.Compact(versions)
}
