package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestStatusOfDevices(t *testing.T) {
	old := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")},
			Claims:   []corev1.ResourceClaim{{Name: "a"}, {Name: "b", Request: "r"}},
		},
	}}}}
	mapping := corev1.ContainerExtendedResourceRequest{ContainerName: "c", ResourceName: "example.com/gpu",
		RequestName: "r"}
	claim := func(name string, list ...corev1.ContainerExtendedResourceRequest) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) {
			s.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name,
				RequestMappings: list}
		}
	}
	device := func(container, name string, health ...corev1.ResourceHealth) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) {
			s.ContainerStatuses = []corev1.ContainerStatus{
				{Name: container, AllocatedResourcesStatus: []corev1.ResourceStatus{
					{Name: corev1.ResourceName(name), Resources: health}}}}
		}
	}
	other := func(change func(m *corev1.ContainerExtendedResourceRequest)) corev1.ContainerExtendedResourceRequest {
		m := mapping
		change(&m)
		return m
	}
	const at, here = "status.extendedResourceClaimStatus", "status.containerStatuses[0].allocatedResourcesStatus[0]"
	for name, c := range map[string]struct {
		change func(*corev1.PodStatus)
		want   []string // fields
	}{
		"good":        {claim("x", mapping), nil},
		"no mappings": {claim("x"), []string{at + ".requestMappings"}},
		"no claim":    {claim("", mapping), []string{at + ".resourceClaimName"}},
		"bad claim":   {claim("A_b", mapping), []string{at + ".resourceClaimName"}},
		"bad request": {claim("x",
			other(func(m *corev1.ContainerExtendedResourceRequest) { m.RequestName = "R" })),
			[]string{at + ".requestName"}},
		"other resource": {claim("x",
			other(func(m *corev1.ContainerExtendedResourceRequest) { m.ResourceName = "cpu" })),
			[]string{at + ".requestMappings[0].resourceName"}},
		"other container": {claim("x",
			other(func(m *corev1.ContainerExtendedResourceRequest) { m.ContainerName = "d" })),
			[]string{at + ".requestMappings[0].containerName"}},
		"twice": {claim("x", mapping, mapping),
			[]string{at + ".requestMappings[1].containerName", at + ".requestMappings[1].resourceName",
				at + ".requestMappings[1].requestName"}},
		"device": {device("c", "example.com/gpu",
			corev1.ResourceHealth{ResourceID: "1", Health: "Healthy"}), nil},
		"device of a claim":  {device("c", "claim:a"), nil},
		"device of its part": {device("c", "claim:b/r"), nil},
		"unknown claim":      {device("c", "claim:b"), []string{here + ".name"}},
		"unknown resource":   {device("c", "cpu"), []string{here + ".name"}},
		"unknown container":  {device("d", "cpu"), nil},
		"bad health": {device("c", "claim:a", corev1.ResourceHealth{Health: "Ill"}),
			[]string{here + ".resources[0].health"}},
		"no message": {device("c", "claim:a", corev1.ResourceHealth{Health: "Healthy", Message: new("")}),
			[]string{here + ".resources[0].message"}},
		"long message": {device("c", "claim:a",
			corev1.ResourceHealth{Health: "Healthy",
				Message: new(strings.Repeat("x", corev1.ResourceHealthMessageMaxLength+1))}),
			[]string{here + ".resources[0].message"}},
		"one device twice": {device("c", "claim:a", corev1.ResourceHealth{ResourceID: "1", Health: "Healthy"},
			corev1.ResourceHealth{ResourceID: "1", Health: "Unknown"}),
			[]string{here + ".resources[1].resourceID"}},
		"of an ephemeral container": {func(s *corev1.PodStatus) {
			s.EphemeralContainerStatuses = []corev1.ContainerStatus{
				{Name: "e", AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "x"}}}}
		}, []string{"status.ephemeralContainerStatuses[0].allocatedResourcesStatus"}},
	} {
		pod := old.DeepCopy()
		c.change(&pod.Status)
		var got []string
		for _, err := range (StatusRules{}).Validate(pod, old) {
			got = append(got, err.Field)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestStatusOfFeaturesThatAreOff(t *testing.T) {
	full := corev1.PodStatus{
		NodeAllocatableResourceClaimStatuses: []corev1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "x"}},
		ContainerStatuses: []corev1.ContainerStatus{{VolumeMounts: []corev1.VolumeMountStatus{{
			Name: "v", VolumeStatus: &corev1.VolumeStatus{Image: &corev1.ImageVolumeStatus{ImageRef: "r"}},
		}}}},
	}
	fresh := full.DeepCopy()
	KeepObserved(fresh, &corev1.PodStatus{})
	if fresh.NodeAllocatableResourceClaimStatuses != nil ||
		fresh.ContainerStatuses[0].VolumeMounts[0].VolumeStatus != nil {
		t.Errorf("kept: %+v", fresh)
	}
	kept := full.DeepCopy()
	KeepObserved(kept, &full)
	if kept.NodeAllocatableResourceClaimStatuses == nil ||
		kept.ContainerStatuses[0].VolumeMounts[0].VolumeStatus == nil {
		t.Errorf("what was there is gone: %+v", kept)
	}
}

func TestStatusWarnings(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "FD00::1"}},
		HostIPs: []corev1.HostIP{{IP: "FD00::2"}}}}
	got := StatusWarnings(pod, nil)
	if len(got) != 2 || !strings.Contains(got[0], "status.podIPs[1].ip") ||
		!strings.Contains(got[1], "status.hostIPs[0].ip") {
		t.Error(got)
	}
}

// TestAddressesAreKnownTwice: fields that decoding sets count as the client's.
func TestAddressesAreKnownTwice(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.1"}}
	if DefaultPod(pod); len(pod.Status.PodIPs) != 1 || pod.Status.PodIPs[0].IP != "10.0.0.1" {
		t.Errorf("%+v", pod.Status)
	}
}
