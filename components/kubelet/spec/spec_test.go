package spec

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

type objects struct{}

func (objects) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	if name == "cm" {
		return &v1.ConfigMap{Data: map[string]string{"A": "from-cm", "B": "b"}}, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("configmaps"), name)
}

func (objects) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	if name == "s" {
		return &v1.Secret{Data: map[string][]byte{"P": []byte("secret")}}, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("secrets"), name)
}

func service(namespace, name, ip string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1.ServiceSpec{ClusterIP: ip,
			Ports: []v1.ServicePort{{Name: "web", Port: 80, Protocol: v1.ProtocolTCP}}},
	}
}

func builder(t *testing.T) *Builder {
	t.Helper()
	return &Builder{
		Root: t.TempDir(), Objects: objects{}, MemoryBytes: 8 << 30, ClusterDomain: "cluster.local",
		ClusterDNS:  []string{"10.0.0.10"},
		Allocatable: func() v1.ResourceList { return v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")} },
		Services: func() ([]*v1.Service, error) {
			return []*v1.Service{service("default", "kubernetes", "10.0.0.1"), service("ns", "my-db", "10.0.0.2"),
				service("other", "x", "10.0.0.3"), service("ns", "headless", "None")}, nil
		},
		CPUQuota: true, CPUPeriod: 100 * time.Millisecond, PauseImage: "pause", LogMaxSize: "1m", LogMaxFiles: 1,
	}
}

func pod(c v1.Container) *v1.Pod {
	c.Name = "c"
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: "uid", Labels: map[string]string{"app": "x"}},
		Spec:       v1.PodSpec{NodeName: "node", Containers: []v1.Container{c}, DNSPolicy: v1.DNSClusterFirst},
		Status:     v1.PodStatus{PodIP: "10.1.0.5", PodIPs: []v1.PodIP{{IP: "10.1.0.5"}}},
	}
}

func build(t *testing.T, b *Builder, p *v1.Pod) (*runtime.ContainerSpec, error) {
	t.Helper()
	return b.Container(t.Context(),
		&Request{Pod: p, Container: &p.Spec.Containers[0], Sandbox: &runtime.Sandbox{ID: "s"}})
}

func TestExpand(t *testing.T) {
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"A": "a", "EMPTY": ""}[name]
		return value, ok
	}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "a", "x$(A)y": "xay", "$(EMPTY)": "", "$(NO)": "$(NO)", "$$(A)": "$(A)",
		"$$$(A)": "$a", "$A": "$A", "$(A": "$(A", "$": "$", "$$": "$", "$(A)$(A)": "aa", "${A}": "${A}", "$()": "$()",
	} {
		if got := expand(in, lookup); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$", "$(", "a$(B)c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := expand(s, func(string) (string, bool) { return "", false })
		if !strings.Contains(s, "$") && got != s {
			t.Errorf("%q became %q", s, got)
		}
		if len(got) > len(s) {
			t.Errorf("%q grew to %q", s, got)
		}
	})
}

func TestEnvironment(t *testing.T) {
	yes := true
	p := pod(v1.Container{
		Command: []string{"run", "$(NAME)"}, Args: []string{"$(A)", "$(KUBERNETES_SERVICE_HOST)", "$(UNKNOWN)"},
		EnvFrom: []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}},
			{Prefix: "S_", SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}},
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "no"},
				Optional: &yes}},
		},
		Env: []v1.EnvVar{
			{Name: "NAME", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "LABEL", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
			{Name: "A", Value: "own $(B)"},
			{Name: "LATER", Value: "$(A) and $(NOT_YET)"},
			{Name: "NOT_YET", Value: "x"},
			{Name: "MEM", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.memory",
				Divisor: resource.MustParse("1Mi")}}},
			{Name: "CPU", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "requests.cpu",
				Divisor: resource.MustParse("1m")}}},
			{
				Name: "GONE",
				ValueFrom: &v1.EnvVarSource{
					SecretKeyRef: &v1.SecretKeySelector{
						LocalObjectReference: v1.LocalObjectReference{Name: "s"},
						Key:                  "no",
						Optional:             &yes,
					},
				},
			},
		},
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}},
	})
	s, err := build(t, builder(t), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A=own b", "B=b", "S_P=secret", "NAME=pod", "IP=10.1.0.5", "LABEL=x", "LATER=own b and $(NOT_YET)",
		"MEM=1024", "CPU=250",
		"KUBERNETES_SERVICE_HOST=10.0.0.1", "MY_DB_SERVICE_HOST=10.0.0.2", "MY_DB_SERVICE_PORT_WEB=80",
		"MY_DB_PORT=tcp://10.0.0.2:80", "MY_DB_PORT_80_TCP_ADDR=10.0.0.2",
	} {
		if !slices.Contains(s.Env, want) {
			t.Errorf("no %s in %v", want, s.Env)
		}
	}
	for _, name := range []string{"X_", "HEADLESS_", "GONE="} {
		if slices.ContainsFunc(s.Env, func(e string) bool { return strings.HasPrefix(e, name) }) {
			t.Errorf("%s is set: %v", name, s.Env)
		}
	}
	if !slices.Equal(s.Command, []string{"run", "pod"}) ||
		!slices.Equal(s.Args, []string{"own b", "10.0.0.1", "$(UNKNOWN)"}) {
		t.Errorf("command %q, args %q", s.Command, s.Args)
	}
	no := false
	p.Spec.EnableServiceLinks = &no
	if s, err = build(t, builder(t), p); err != nil || slices.Contains(s.Env, "MY_DB_SERVICE_HOST=10.0.0.2") ||
		!slices.Contains(s.Env, "KUBERNETES_SERVICE_HOST=10.0.0.1") {
		t.Errorf("without service links: %v, %v", s.Env, err)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for want, c := range map[string]v1.Container{
		`configmaps "no" not found`: {EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "no"}}}}},
		"couldn't find key no in ConfigMap ns/cm": {Env: []v1.EnvVar{{Name: "X",
			ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}, Key: "no"}}}}},
		"volume mount \"v\"":                            {VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}},
		"container has runAsNonRoot and image will run": {SecurityContext: &v1.SecurityContext{RunAsNonRoot: new(true)}},
	} {
		if _, err := build(t, builder(t), pod(c)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestResourcesAndSecurity(t *testing.T) {
	uid, gid, group := int64(1000), int64(2000), int64(3000)
	p := pod(v1.Container{
		Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"),
				v1.ResourceMemory: resource.MustParse("2Gi")},
			Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"),
				v1.ResourceMemory: resource.MustParse("4Gi")},
		},
		SecurityContext: &v1.SecurityContext{
			RunAsGroup: &gid, ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
			Capabilities:   &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
			SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		},
	})
	p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &uid, FSGroup: &group, RunAsNonRoot: new(true)}
	s, err := build(t, builder(t), p)
	if err != nil {
		t.Fatal(err)
	}
	if s.CPUShares != 512 || s.CPUQuota != 200000 || s.CPUPeriod != 100000 || s.MemoryBytes != 4<<30 ||
		s.OOMScoreAdjust != 750 {
		t.Errorf("resources: %+v", s)
	}
	if s.User != "1000:2000" || !slices.Equal(s.Groups, []string{"3000"}) || !s.ReadOnlyRoot || !s.NoNewPrivs ||
		s.Seccomp != "" ||
		!slices.Equal(s.AddCaps, []string{"NET_ADMIN"}) || !slices.Equal(s.DropCaps, []string{"ALL"}) {
		t.Errorf("security: %+v", s)
	}
	if s, err = build(t, builder(t), pod(v1.Container{})); err != nil || s.Seccomp != "unconfined" ||
		s.CPUShares != 2 || s.CPUQuota != 0 || s.OOMScoreAdjust != 1000 {
		t.Errorf("by default: %+v, %v", s, err)
	}
}

func TestFilesOfTheContainer(t *testing.T) {
	b := builder(t)
	b.ResolvConf = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(b.ResolvConf, []byte("nameserver 9.9.9.9\nsearch example.com\noptions timeout:1\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	p := pod(v1.Container{TerminationMessagePath: "/dev/termination-log"})
	p.Spec.Subdomain = "sub"
	p.Spec.HostAliases = []v1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}}
	p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"8.8.8.8"},
		Options: []v1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}}}
	read := func() map[string]string {
		t.Helper()
		s, err := build(t, b, p)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, m := range s.Mounts {
			data, err := os.ReadFile(m.Source)
			if err != nil {
				t.Fatal(err)
			}
			files[m.Target] = string(data)
		}
		return files
	}
	files := read()
	for target, wants := range map[string][]string{
		"/etc/hosts": {"10.1.0.5\tpod.sub.ns.svc.cluster.local\tpod\n", "1.2.3.4\ta\tb\n"},
		"/etc/resolv.conf": {"nameserver 10.0.0.10\nnameserver 8.8.8.8\n",
			"search ns.svc.cluster.local svc.cluster.local cluster.local example.com\n", "options ndots:2\n"},
		"/dev/termination-log": {""},
	} {
		for _, want := range wants {
			if content, ok := files[target]; !ok || !strings.Contains(content, want) {
				t.Errorf("%s is %q, want %q in it", target, content, want)
			}
		}
	}
	p.Spec.DNSPolicy = v1.DNSDefault
	if got := read()["/etc/resolv.conf"]; !strings.HasPrefix(got, "search example.com\nnameserver 9.9.9.9\n") {
		t.Errorf("policy Default: %q", got)
	}
	p.Spec.DNSPolicy = v1.DNSNone
	if got := read()["/etc/resolv.conf"]; got != "nameserver 8.8.8.8\noptions ndots:2\n" {
		t.Errorf("policy None: %q", got)
	}
}

func TestHostname(t *testing.T) {
	p := pod(v1.Container{})
	p.Name = strings.Repeat("x", 62) + ".y"
	if name, _ := Hostname(p, "d"); len(name) > 63 || strings.HasSuffix(name, ".") {
		t.Errorf("long name: %q", name)
	}
	p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "h", "s", new(true)
	s, err := builder(t).Sandbox(p, 0)
	if err != nil || s.Hostname != "h.s.ns.svc.cluster.local" {
		t.Errorf("FQDN: %+v, %v", s, err)
	}
}

// TestStopSignal: a container is stopped by the signal that it names where the feature is on.
func TestStopSignal(t *testing.T) {
	for on, want := range map[bool]string{true: "SIGUSR1", false: ""} {
		b := builder(t)
		b.StopSignals = on
		s, err := build(t, b, pod(v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: new(v1.SIGUSR1)}}))
		if err != nil || s.StopSignal != want {
			t.Errorf("%v: %q, %v", on, s.StopSignal, err)
		}
	}
}
