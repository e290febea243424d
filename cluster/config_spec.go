package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/faults"
	"quintet.dev/quintet/internal/strictyaml"
)

// clusterSpec is the content of a configuration file.
type clusterSpec struct {
	APIVersion    string        `json:"apiVersion"`
	Kind          string        `json:"kind"`
	Name          string        `json:"name"`
	InProcess     bool          `json:"inProcess"`
	Store         Store         `json:"store"`
	IPFamily      IPFamily      `json:"ipFamily"`
	Runtime       Runtime       `json:"runtime"`
	Nodes         nodesSpec     `json:"nodes"`
	NodeResources resourcesSpec `json:"nodeResources"`
	Overcommit    bool          `json:"overcommit"`
	EtcdDisk      amountSpec    `json:"etcdDisk"`

	ShutdownGracePeriod             metav1.Duration `json:"shutdownGracePeriod"`
	ShutdownGracePeriodCriticalPods metav1.Duration `json:"shutdownGracePeriodCriticalPods"`

	APIServers         *int                        `json:"apiServers"`
	EtcdMembers        *int                        `json:"etcdMembers"`
	Schedulers         *int                        `json:"schedulers"`
	ControllerManagers *int                        `json:"controllerManagers"`
	Components         map[Component]componentSpec `json:"components"`
	With               []Component                 `json:"with"`
	Without            []Component                 `json:"without"`
	Images             []string                    `json:"images"`
	ImageArchives      []string                    `json:"imageArchives"`
	RegistryUser       *registryUserSpec           `json:"registryUser"`
	RegistryMirrors    []string                    `json:"registryMirrors"`
	InsecureRegistries []string                    `json:"insecureRegistries"`
	Publish            []publishSpec               `json:"publish"`
	Faults             faultsSpec                  `json:"faults"`
	CRDs               []string                    `json:"crds"`
	Manifests          []string                    `json:"manifests"`
	WaitForManifests   bool                        `json:"waitForManifests"`
	Kubeconfig         *kubeconfigSpec             `json:"kubeconfig"`
}

type componentSpec struct {
	Image   string     `json:"image"`
	Program string     `json:"program"`
	Args    []string   `json:"args"`
	Files   []fileSpec `json:"files"`
}

// fileSpec is one file of a component; its content is there, or in another file.
type fileSpec struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
	Source  string  `json:"source"`
}

type nodeSpec struct {
	Role   string            `json:"role"`
	Labels map[string]string `json:"labels"`
	Taints []taintSpec       `json:"taints"`
	Args   []string          `json:"args"`
	Mounts []mountSpec       `json:"mounts"`
	Ports  []portSpec        `json:"ports"`
}

type taintSpec struct {
	Key    string             `json:"key"`
	Value  string             `json:"value"`
	Effect corev1.TaintEffect `json:"effect"`
}

type mountSpec struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
	ReadOnly      bool   `json:"readOnly"`
}

type portSpec struct {
	ContainerPort int             `json:"containerPort"`
	HostPort      int             `json:"hostPort"`
	Protocol      corev1.Protocol `json:"protocol"`
	ListenAddress string          `json:"listenAddress"`
}

type publishSpec struct {
	HostPort int `json:"hostPort"`
	NodePort int `json:"nodePort"`
}

type kubeconfigSpec struct {
	Merge bool   `json:"merge"`
	File  string `json:"file"`
}

// nodesSpec is a number of nodes, or a list of them.
type nodesSpec struct {
	count *int
	list  []nodeSpec
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (n *nodesSpec) DecodeYAML(d *strictyaml.Decoder, path string, node *yaml.Node) {
	switch node.Kind {
	case yaml.ScalarNode:
		d.Value(path, node, &n.count)
	case yaml.SequenceNode:
		n.list = []nodeSpec{}
		d.Value(path, node, &n.list)
	default:
		d.Fail(path, node, "want the number of nodes, or a list of them")
	}
}

// faultsSpec is the name of a file with a plan, or a plan.
type faultsSpec struct {
	file string
	plan *faults.Plan
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (f *faultsSpec) DecodeYAML(d *strictyaml.Decoder, path string, node *yaml.Node) {
	if node.Kind == yaml.ScalarNode {
		d.Value(path, node, &f.file)
		return
	}
	f.plan = &faults.Plan{}
	d.Value(path, node, f.plan)
}

// settings are the options that the file asks for. Paths in it are relative to dir.
func (s *clusterSpec) settings(dir string, d *strictyaml.Decoder) (settings []setting, errs []error) {
	add := func(asked bool, path string, option func() Option) {
		if asked {
			settings = append(settings, setting{path, option()})
		}
	}
	add(s.Name != "", "name", func() Option { return WithName(s.Name) })
	add(s.InProcess, "inProcess", InProcess)
	add(s.Store != "", "store", func() Option { return WithStore(s.Store) })
	add(s.IPFamily != "", "ipFamily", func() Option { return WithIPFamily(s.IPFamily) })
	add(s.Runtime != "", "runtime", func() Option { return WithRuntime(s.Runtime) })
	add(s.Nodes.count != nil, "nodes", func() Option { return WithNodes(*s.Nodes.count) })
	add(s.Nodes.list != nil && len(s.Nodes.list) == 0, "nodes", func() Option { return WithNodes(0) })
	for i, n := range s.Nodes.list {
		add(true, fmt.Sprintf("nodes[%d]", i), func() Option { return WithNode(n.options(dir)) })
	}
	settings = append(settings, s.NodeResources.settings()...)
	add(s.Overcommit, "overcommit", WithOvercommit)
	add(s.EtcdDisk != 0, "etcdDisk", func() Option { return WithDiskSize(int64(s.EtcdDisk)) })
	settings = append(settings, s.shutdownSettings()...)
	add(s.APIServers != nil, "apiServers", func() Option { return WithAPIServers(*s.APIServers) })
	add(s.EtcdMembers != nil, "etcdMembers", func() Option { return WithEtcdMembers(*s.EtcdMembers) })
	add(s.Schedulers != nil, "schedulers", func() Option { return WithSchedulers(*s.Schedulers) })
	add(s.ControllerManagers != nil, "controllerManagers",
		func() Option { return WithControllerManagers(*s.ControllerManagers) })
	for i, component := range s.With {
		add(true, fmt.Sprintf("with[%d]", i), func() Option { return With(component) })
	}
	for i, component := range s.Without {
		add(true, fmt.Sprintf("without[%d]", i), func() Option { return Without(component) })
	}
	for i, p := range s.Publish {
		add(true, fmt.Sprintf("publish[%d]", i), func() Option { return WithPublishedPort(p.HostPort, p.NodePort) })
	}
	add(len(s.Images) > 0, "images", func() Option { return WithLoadedImages(s.Images...) })
	for i, file := range s.ImageArchives {
		add(true, fmt.Sprintf("imageArchives[%d]", i), func() Option { return WithImageArchives(within(dir, file)) })
	}
	for i, file := range s.CRDs {
		add(true, fmt.Sprintf("crds[%d]", i), func() Option { return WithCRDs(within(dir, file)) })
	}
	for i, file := range s.Manifests {
		add(true, fmt.Sprintf("manifests[%d]", i), func() Option { return WithManifests(within(dir, file)) })
	}
	add(s.WaitForManifests, "waitForManifests", WaitForManifests)
	for _, name := range slices.Sorted(maps.Keys(s.Components)) {
		more, bad := s.Components[name].settings(name, dir, d)
		settings, errs = append(settings, more...), append(errs, bad...)
	}
	more, bad := s.registrySettings(dir, d)
	settings, errs = append(settings, more...), append(errs, bad...)
	plan, bad := s.Faults.read(dir, "faults", d)
	errs = append(errs, bad...)
	add(plan != nil && len(bad) == 0, "faults", func() Option { return WithFaults(*plan) })
	more, bad = s.Kubeconfig.settings(dir, d)
	return append(settings, more...), append(errs, bad...)
}

func (k *kubeconfigSpec) settings(dir string, d *strictyaml.Decoder) (settings []setting, errs []error) {
	if k == nil {
		return nil, nil
	}
	k.File = within(dir, k.File)
	if k.File != "" && !k.Merge {
		return nil, []error{d.At("kubeconfig.file", errors.New("nothing is merged without merge: true"))}
	}
	if k.Merge {
		settings = append(settings, setting{"kubeconfig", WithKubeconfigMerged(k.File)})
	}
	return settings, nil
}

func (c componentSpec) settings(name Component, dir string, d *strictyaml.Decoder) (settings []setting, errs []error) {
	path := "components." + string(name)
	if err := known(name); err != nil {
		return nil, []error{d.At(path, err)}
	}
	if c.Image != "" {
		settings = append(settings, setting{path + ".image", WithImage(name, c.Image)})
	}
	if c.Program != "" {
		file := within(dir, c.Program)
		if info, err := os.Stat(file); err != nil {
			errs = append(errs, d.At(path+".program", err))
		} else if info.IsDir() {
			errs = append(errs, d.At(path+".program", fmt.Errorf("%s is a directory", file)))
		}
		settings = append(settings, setting{path + ".program", WithProgram(name, ProgramFile(file))})
	}
	if len(c.Args) > 0 {
		settings = append(settings, setting{path + ".args", WithArgs(name, c.Args...)})
	}
	for i, f := range c.Files {
		at := fmt.Sprintf("%s.files[%d]", path, i)
		content, err := f.read(dir)
		if err != nil {
			errs = append(errs, d.At(at, err))
			continue
		}
		settings = append(settings, setting{at, WithFile(name, f.Path, content)})
	}
	return settings, errs
}

func (f fileSpec) read(dir string) ([]byte, error) {
	switch {
	case (f.Content != nil) == (f.Source != ""):
		return nil, errors.New("give either content, or source: the path of a file with it")
	case f.Content != nil:
		return []byte(*f.Content), nil
	default:
		return os.ReadFile(within(dir, f.Source))
	}
}

// read returns nil if there is no plan. path is the field's.
func (f faultsSpec) read(dir, path string, d *strictyaml.Decoder) (*faults.Plan, []error) {
	if f.file != "" {
		file := within(dir, f.file)
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, []error{d.At(path, err)}
		}
		plan, err := faults.Load(file, content)
		if err != nil {
			return nil, []error{d.At(path, err)}
		}
		return &plan, nil
	}
	if f.plan == nil {
		return nil, nil
	}
	var errs []error
	for _, m := range f.plan.Mistakes() {
		errs = append(errs, d.At(path+"."+m.Path, m.Err))
	}
	return f.plan, errs
}

func (n nodeSpec) options(dir string) NodeOptions {
	o := NodeOptions{Role: n.Role, Labels: n.Labels, Args: n.Args}
	for _, t := range n.Taints {
		o.Taints = append(o.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	for _, m := range n.Mounts {
		m.HostPath = within(dir, m.HostPath)
		o.Mounts = append(o.Mounts, Mount(m))
	}
	for _, p := range n.Ports {
		o.Ports = append(o.Ports, PortMapping(p))
	}
	return o
}

// within is a path relative to dir, unless it is absolute or empty.
func within(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
