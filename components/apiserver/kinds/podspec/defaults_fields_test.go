package podspec

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// full is a pod with something to be set in every place that has defaults.
func full() *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{DeprecatedServiceAccount: "sa", HostNetwork: true}}
	p.Annotations = map[string]string{"pod.beta.kubernetes.io/init-containers": "[]"}
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(1)},
			GRPC: &corev1.GRPCAction{Port: 1}}}
	}
	hook := func() *corev1.LifecycleHandler { return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}} }
	for _, s := range volumesToDefault() {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: s})
	}
	c := corev1.Container{Name: "c", Image: "i",
		Ports: []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 81, Protocol: "UDP"}},
		Resources: corev1.ResourceRequirements{Limits: amounts("cpu", "100u", "memory", "1Gi"),
			Requests: amounts("memory", "1Mi")},
		Env: []corev1.EnvVar{{Name: "A"},
			{Name: "B",
				ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{Key: "k"}}}},
		LivenessProbe: probe(), ReadinessProbe: probe(), StartupProbe: probe(),
		Lifecycle: &corev1.Lifecycle{PostStart: hook(), PreStop: hook()}}
	p.Spec.InitContainers, p.Spec.Containers = []corev1.Container{*c.DeepCopy()}, []corev1.Container{c}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon(*c.DeepCopy())}}
	p.Spec.Overhead = amounts("cpu", "1500u")
	p.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts("cpu", "1")}
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{AllocatedResources: amounts("cpu", "1u")}}
	return p
}

func volumesToDefault() []volumeSource {
	name := corev1.ObjectFieldSelector{FieldPath: "metadata.name"}
	file := []corev1.DownwardAPIVolumeFile{{Path: "a", FieldRef: &name},
		{Path: "b", ResourceFieldRef: &corev1.ResourceFieldSelector{}}}
	return []volumeSource{{}, {HostPath: &corev1.HostPathVolumeSource{}}, {Secret: &corev1.SecretVolumeSource{}},
		{ConfigMap: &corev1.ConfigMapVolumeSource{}}, {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: file}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{FieldRef: name.DeepCopy()}}}}}}},
		{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage",
				"1u")}}}}},
		{Image: &corev1.ImageVolumeSource{Reference: "i"}}, {ISCSI: &corev1.ISCSIVolumeSource{}},
		{RBD: &corev1.RBDVolumeSource{}},
		{AzureDisk: &corev1.AzureDiskVolumeSource{}}, {ScaleIO: &corev1.ScaleIOVolumeSource{}}}
}

// TestDefaultsHoldStill: defaults of what has defaults change nothing, in pods and templates.
func TestDefaultsHoldStill(t *testing.T) {
	p := full()
	DefaultPod(p)
	again := p.DeepCopy()
	if DefaultPod(again); !reflect.DeepEqual(p, again) {
		t.Errorf("a pod became\n%+v, then\n%+v", p, again)
	}
	s := &corev1.PodTemplateSpec{ObjectMeta: full().ObjectMeta, Spec: full().Spec}
	DefaultTemplate(s)
	more := s.DeepCopy()
	if DefaultTemplate(more); !reflect.DeepEqual(s, more) {
		t.Errorf("a template became\n%+v, then\n%+v", s, more)
	}
}

func TestDefaultVolumes(t *testing.T) {
	mode, name := new(int32(0o644)), &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}
	file := []corev1.DownwardAPIVolumeFile{{Path: "a", FieldRef: name},
		{Path: "b", ResourceFieldRef: &corev1.ResourceFieldSelector{}}}
	rounded := corev1.VolumeResourceRequirements{Requests: amounts("storage", "1m")}
	want := []volumeSource{{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		{HostPath: &corev1.HostPathVolumeSource{Type: new(corev1.HostPathUnset)}},
		{Secret: &corev1.SecretVolumeSource{DefaultMode: mode}},
		{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultMode: mode}},
		{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: mode, Items: file}},
		{Projected: &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3600))}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{FieldRef: name}}}}}}},
		{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: new(corev1.PersistentVolumeFilesystem),
				Resources: rounded}}}},
		{Image: &corev1.ImageVolumeSource{Reference: "i", PullPolicy: "Always"}},
		{ISCSI: &corev1.ISCSIVolumeSource{ISCSIInterface: "default"}},
		{RBD: &corev1.RBDVolumeSource{RBDPool: "rbd", RadosUser: "admin", Keyring: "/etc/ceph/keyring"}},
		{AzureDisk: &corev1.AzureDiskVolumeSource{CachingMode: new(corev1.AzureDataDiskCachingReadWrite),
			Kind: new(corev1.AzureSharedBlobDisk), FSType: new("ext4"), ReadOnly: new(false)}},
		{ScaleIO: &corev1.ScaleIOVolumeSource{StorageMode: "ThinProvisioned", FSType: "xfs"}}}
	for i, s := range volumesToDefault() {
		v := corev1.Volume{VolumeSource: s}
		defaultVolume(&v)
		if e := v.Ephemeral; e != nil { // amounts remember how they are written
			q := e.VolumeClaimTemplate.Spec.Resources.Requests["storage"]
			if q.Cmp(resource.MustParse("1m")) != 0 {
				t.Errorf("a claim of %s", q.String())
			}
			e.VolumeClaimTemplate.Spec.Resources = rounded
		}
		if !reflect.DeepEqual(v.VolumeSource, want[i]) {
			t.Errorf("got %+v, want %+v", v.VolumeSource, want[i])
		}
	}
}

// TestDefaultContainers: containers of all lists have the same defaults, but for requests and ports of the host.
func TestDefaultContainers(t *testing.T) {
	p := full()
	DefaultPod(p)
	list := []corev1.Container{p.Spec.InitContainers[0], p.Spec.Containers[0],
		corev1.Container(p.Spec.EphemeralContainers[0].EphemeralContainerCommon)}
	for i := range list {
		c := &list[i]
		if c.ImagePullPolicy != "Always" || c.TerminationMessagePath != "/dev/termination-log" ||
			c.TerminationMessagePolicy != "File" {
			t.Errorf("%d: %+v", i, c)
		}
		if c.Ports[0].Protocol != "TCP" || c.Ports[1].Protocol != "UDP" || c.Env[1].ValueFrom.FieldRef.APIVersion != "v1" ||
			*c.Env[2].ValueFrom.FileKeyRef.Optional {
			t.Errorf("%d: ports %+v, variables %+v", i, c.Ports, c.Env)
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			want := corev1.Probe{TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
				ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(1),
					Scheme: "HTTP"},
					GRPC: &corev1.GRPCAction{Port: 1, Service: new("")}}}
			if !reflect.DeepEqual(*probe, want) {
				t.Errorf("%d: probe %+v", i, probe)
			}
		}
		for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook.HTTPGet.Path != "/" || hook.HTTPGet.Scheme != "HTTP" {
				t.Errorf("%d: hook %+v", i, hook.HTTPGet)
			}
		}
		if cpu := c.Resources.Limits["cpu"]; cpu.String() != "1m" {
			t.Errorf("%d: limit of %s", i, cpu.String())
		}
		cpu, memory := c.Resources.Requests["cpu"], c.Resources.Requests["memory"]
		if ephemeral := i == 2; (cpu.String() == "1m") == ephemeral || memory.String() != "1Mi" ||
			(c.Ports[0].HostPort == 80) == ephemeral {
			t.Errorf("%d: requests %v, ports %v", i, c.Resources.Requests, c.Ports)
		}
	}
}

// TestDefaultTemplates: what holds for pods only is not written into templates.
func TestDefaultTemplates(t *testing.T) {
	s := &corev1.PodTemplateSpec{Spec: full().Spec}
	s.Spec.TerminationGracePeriodSeconds = new(int64(-1))
	DefaultTemplate(s)
	c := s.Spec.Containers[0]
	if _, has := c.Resources.Requests["cpu"]; has || c.Ports[0].HostPort != 0 || s.Spec.EnableServiceLinks != nil ||
		*s.Spec.TerminationGracePeriodSeconds != -1 || len(s.Spec.Resources.Requests) > 0 {
		t.Errorf("a template became %+v", s.Spec)
	}
	p := full()
	p.Spec.TerminationGracePeriodSeconds = new(int64(-1))
	if DefaultPod(p); *p.Spec.TerminationGracePeriodSeconds != 1 {
		t.Errorf("the pod has %d s to end", *p.Spec.TerminationGracePeriodSeconds)
	}
	if cpu := p.Spec.Overhead["cpu"]; cpu.String() != "2m" {
		t.Errorf("overhead of %s", cpu.String())
	}
	if cpu := p.Status.ContainerStatuses[0].AllocatedResources["cpu"]; cpu.String() != "1m" {
		t.Errorf("allocated are %s", cpu.String())
	}
}

// TestAliases: of two names of one field, and of a list and its first item, which one wins.
func TestAliases(t *testing.T) {
	for _, c := range []struct{ name, deprecated, want string }{
		{"", "", ""}, {"a", "", "a"}, {"", "b", "b"}, {"a", "b", "a"},
	} {
		s := &corev1.PodSpec{ServiceAccountName: c.name, DeprecatedServiceAccount: c.deprecated}
		if syncServiceAccount(s); s.ServiceAccountName != c.want || s.DeprecatedServiceAccount != c.want {
			t.Errorf("%+v: %q and %q", c, s.ServiceAccountName, s.DeprecatedServiceAccount)
		}
	}
	ips := func(list ...string) (out []corev1.PodIP) {
		for _, ip := range list {
			out = append(out, corev1.PodIP{IP: ip})
		}
		return out
	}
	for name, c := range map[string]struct{ is, want corev1.PodStatus }{
		"none":     {corev1.PodStatus{}, corev1.PodStatus{}},
		"the list": {corev1.PodStatus{PodIPs: ips("a", "b")}, corev1.PodStatus{PodIP: "a", PodIPs: ips("a", "b")}},
		"the one":  {corev1.PodStatus{PodIP: "a"}, corev1.PodStatus{PodIP: "a", PodIPs: ips("a")}},
		"both": {corev1.PodStatus{PodIP: "a", PodIPs: ips("a", "b")},
			corev1.PodStatus{PodIP: "a", PodIPs: ips("a", "b")}},
		"another one": {corev1.PodStatus{PodIP: "c", PodIPs: ips("a", "b")},
			corev1.PodStatus{PodIP: "c", PodIPs: ips("c")}},
	} {
		if SyncStatusIPs(&c.is); !reflect.DeepEqual(c.is, c.want) {
			t.Errorf("%s: %+v", name, c.is)
		}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "admitted", DeprecatedServiceAccount: "old"}}
	if SyncServiceAccount(p); p.Spec.DeprecatedServiceAccount != "admitted" {
		t.Errorf("got %q", p.Spec.DeprecatedServiceAccount)
	}
}
