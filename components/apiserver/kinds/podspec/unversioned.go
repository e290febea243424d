package podspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// UnversionedTemplate is a template as upstream's API server shows it in errors; see checks.Unversioned.
func UnversionedTemplate(t *corev1.PodTemplateSpec) any {
	return struct {
		metav1.ObjectMeta
		Spec any
	}{t.ObjectMeta, UnversionedSpec(&t.Spec)}
}

// UnversionedSpec is a pod spec as upstream's API server shows it in errors: in the form that is validated there, in
// which what concerns the host is a part of the security context (see checks.Unversioned).
func UnversionedSpec(s *corev1.PodSpec) any {
	sc := s.SecurityContext
	if sc == nil {
		sc = &corev1.PodSecurityContext{}
	}
	show := checks.Unversioned
	return struct {
		Volumes, InitContainers, Containers, EphemeralContainers json.Marshaler

		RestartPolicy                 corev1.RestartPolicy
		TerminationGracePeriodSeconds *int64
		ActiveDeadlineSeconds         *int64
		DNSPolicy                     corev1.DNSPolicy
		NodeSelector                  map[string]string
		ServiceAccountName            string
		AutomountServiceAccountToken  *bool
		NodeName                      string
		SecurityContext               any
		ImagePullSecrets              json.Marshaler
		Hostname, Subdomain           string
		SetHostnameAsFQDN             *bool
		Affinity                      json.Marshaler
		SchedulerName                 string
		Tolerations, HostAliases      json.Marshaler
		PriorityClassName             string
		Priority                      *int32
		PreemptionPolicy              *corev1.PreemptionPolicy
		DNSConfig, ReadinessGates     json.Marshaler
		RuntimeClassName              *string
		Overhead                      corev1.ResourceList
		EnableServiceLinks            *bool
		TopologySpreadConstraints     json.Marshaler
		OS, SchedulingGates           json.Marshaler
		ResourceClaims, Resources     json.Marshaler
		HostnameOverride              *string
		SchedulingGroup               json.Marshaler
	}{
		show(s.Volumes), show(s.InitContainers), show(s.Containers), show(s.EphemeralContainers),
		s.RestartPolicy, s.TerminationGracePeriodSeconds, s.ActiveDeadlineSeconds, s.DNSPolicy, s.NodeSelector,
		s.ServiceAccountName, s.AutomountServiceAccountToken, s.NodeName, unversionedSecurity(s, sc),
		show(s.ImagePullSecrets), s.Hostname, s.Subdomain, s.SetHostnameAsFQDN, show(s.Affinity), s.SchedulerName,
		show(s.Tolerations), show(s.HostAliases), s.PriorityClassName, s.Priority, s.PreemptionPolicy,
		show(s.DNSConfig), show(s.ReadinessGates), s.RuntimeClassName, s.Overhead, s.EnableServiceLinks,
		show(s.TopologySpreadConstraints), show(s.OS), show(s.SchedulingGates), show(s.ResourceClaims),
		show(s.Resources),
		s.HostnameOverride, show(s.SchedulingGroup),
	}
}

func unversionedSecurity(s *corev1.PodSpec, sc *corev1.PodSecurityContext) any {
	show := checks.Unversioned
	return struct {
		HostNetwork, HostPID, HostIPC    bool
		ShareProcessNamespace, HostUsers *bool
		SELinuxOptions, WindowsOptions   json.Marshaler
		RunAsUser, RunAsGroup            *int64
		RunAsNonRoot                     *bool
		SupplementalGroups               []int64
		SupplementalGroupsPolicy         *corev1.SupplementalGroupsPolicy
		FSGroup                          *int64
		FSGroupChangePolicy              *corev1.PodFSGroupChangePolicy
		Sysctls                          json.Marshaler
		SeccompProfile, AppArmorProfile  json.Marshaler
		SELinuxChangePolicy              *corev1.PodSELinuxChangePolicy
	}{
		s.HostNetwork, s.HostPID, s.HostIPC, s.ShareProcessNamespace, s.HostUsers,
		show(sc.SELinuxOptions), show(sc.WindowsOptions), sc.RunAsUser, sc.RunAsGroup, sc.RunAsNonRoot,
		sc.SupplementalGroups, sc.SupplementalGroupsPolicy, sc.FSGroup, sc.FSGroupChangePolicy, show(sc.Sysctls),
		show(sc.SeccompProfile), show(sc.AppArmorProfile), sc.SELinuxChangePolicy,
	}
}

// ReadUnversioned reads a value of the core group out of an annotation. What is wrong with it is told of the types into
// which upstream's API server reads it, whose fields are called as in Go.
func ReadUnversioned(text string, into any) error {
	err := json.Unmarshal([]byte(text), into)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	where := "value"
	if wrong.Field != "" {
		where = "struct field " + wrong.Struct + "." + strings.ToUpper(wrong.Field[:1]) + wrong.Field[1:]
	}
	return fmt.Errorf("json: cannot unmarshal %s into Go %s of type %s", wrong.Value, where,
		strings.Replace(wrong.Type.String(), "v1.", "core.", 1))
}
