package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quintet.dev/quintet/cluster"
)

// upFlags are the flags of `quintet up`.
type upFlags struct {
	nodes, apiServers, etcds int
	images, args, without    []string
	programs                 []string
	with                     []string
	publish                  []string
	inProcess                bool
	store, ipFamily, runtime string
	faults                   string
	schedulers, managers     int
	config, from             string
	crds, manifests          []string
	waitForManifests         bool
	mergeKubeconfig, retain  bool
	registryUser             string
	mirrors, insecure        []string
	nodeCPUs                 int
	nodeMemory               string
	etcdDisk, nodeDisk       string
	overcommit               bool
	shutdown, shutdownLast   time.Duration
	timeout                  time.Duration
}

func (a *app) up() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster",
		Long: `Start a cluster and wait until it can run pods.

A cluster of containers keeps running when the command ends; remove it with 'quintet down'. With --in-process the
cluster is this process: it lives until the command is interrupted.

What flags say of the cluster is a field of the file of --config, too. --from, --retain and --timeout are about the
start, and have no field.`,
		Example: `  quintet up                                     # one node, named quintet
  quintet up --name b --nodes 3                  # a second one beside it
  quintet up --image kube-scheduler=mine:dev     # one component swapped
  quintet up --args kube-scheduler=--v=4         # arguments for one component
  quintet up --without kube-scheduler            # run your own against the rest
  quintet up --without coredns                   # no cluster DNS, a second sooner
  quintet up --without volume-provisioner        # no default StorageClass
  quintet up --with metrics-server               # metrics.k8s.io, for autoscalers and kubectl top
  quintet up --with csi-driver                   # a CSI driver, and the StorageClass csi
  quintet up --with device-driver                # devices: quintet.dev/device, and the DeviceClass device.quintet.dev
  quintet up --with registry                     # images that nodes pull: quintet registry push
  quintet up --publish 8080:30080                # node port 30080 at 127.0.0.1:8080
  quintet up --ip-family dual                    # addresses of IPv4 and IPv6
  quintet up --nodes 2 --node-cpus 1 --node-memory 2Gi   # what each node has
  quintet up --runtime cri                       # pods on containerd, by CRI and CNI
  quintet up --faults plan.yaml                  # disturb requests, see quintet faults
  quintet up --config cluster.yaml               # what describes the cluster in a file, single nodes too
  quintet up --manifest app.yaml --wait          # with these objects, ready
  quintet up --name b --from prepared.tar        # with the objects and users of quintet snapshot
  quintet up --kubeconfig-merge                  # for any kubectl, until it is down
  quintet up --in-process --nodes 100            # no Docker, hollow nodes
  quintet up --in-process --program kube-scheduler=bin/mine   # one component swapped there`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runUp(cmd.Context(), f, cmd.Flags().Changed) },
	}
	f.bind(cmd.Flags())
	return cmd
}

func (f *upFlags) bind(fs *pflag.FlagSet) {
	f.bindCluster(fs)
	fs.StringVar(&f.registryUser, "registry-user", "", "NAME:PASSWORD that the registry demands; adds the registry")
	fs.StringArrayVar(&f.mirrors, "registry-mirror", nil,
		"address of a mirror that nodes ask before Docker Hub; may be repeated")
	fs.StringArrayVar(&f.insecure, "insecure-registry", nil,
		"HOST[:PORT] that nodes pull from without TLS, or with any certificate; may be repeated")
	fs.StringArrayVar(&f.publish, "publish", nil,
		"HOSTPORT:NODEPORT: make a node port reachable at a port of 127.0.0.1, or of the Docker engine's host if that is "+
			"another "+
			"machine; may be repeated")
	fs.BoolVar(&f.inProcess, "in-process", false, "run everything in this process, without Docker, on hollow nodes")
	fs.StringVar(&f.store, "store", "", "store of an in-process cluster: memory (the default) or etcd3")
	fs.StringVar(&f.faults, "faults", "", "file with a plan of faults by which requests to the API server are disturbed")
	fs.BoolVar(&f.waitForManifests, "wait", false, "wait until the objects of --manifest are ready")
	fs.BoolVar(&f.mergeKubeconfig, "kubeconfig-merge", false,
		"add the context quintet-NAME to $KUBECONFIG or ~/.kube/config, and make it the current one, until the cluster is "+
			"down")
	fs.StringVar(&f.from, "from", "",
		"file of quintet snapshot: start a cluster that goes on from there, with its options")
	fs.BoolVar(&f.retain, "retain", false, "keep what there is of a cluster that does not come up, to look at")
	fs.DurationVar(&f.timeout, "timeout", 3*time.Minute, "how long to wait until the cluster is ready")
}

// bindCluster binds the flags that describe what a cluster of containers consists of.
func (f *upFlags) bindCluster(fs *pflag.FlagSet) {
	fs.IntVar(&f.nodes, "nodes", 1, "number of nodes")
	fs.IntVar(&f.apiServers, "api-servers", 1, "number of API servers")
	fs.IntVar(&f.etcds, "etcd-members", 1, "number of etcd members")
	fs.StringArrayVar(&f.images, "image", nil, "COMPONENT=REF: run a component from another image; may be repeated")
	fs.StringArrayVar(&f.programs, "program", nil,
		"COMPONENT=FILE: run a program file of this machine as a component, in a cluster in process; may be repeated")
	fs.StringArrayVar(&f.args, "args", nil,
		"COMPONENT=ARGUMENT: add an argument to a component's command line; may be repeated")
	fs.StringArrayVar(&f.without, "without", nil, "COMPONENT to leave out; may be repeated")
	fs.StringArrayVar(&f.with, "with", nil,
		"COMPONENT to add that is off by default: metrics-server, csi-driver, device-driver or registry; may be repeated")
	fs.StringVar(&f.ipFamily, "ip-family", string(cluster.IPv4),
		"addresses of nodes, pods and Services: ipv4, ipv6 or dual")
	fs.IntVar(&f.schedulers, "schedulers", 1, "number of schedulers; several elect a leader")
	fs.IntVar(&f.managers, "controller-managers", 1, "number of controller managers; several elect a leader")
	fs.StringVar(&f.config, "config", "", "file that describes the cluster; what flags say comes on top of it")
	fs.StringArrayVar(&f.crds, "crds", nil, "file or directory of CustomResourceDefinitions to install; may be repeated")
	fs.StringArrayVar(&f.manifests, "manifest", nil, "file or directory of objects to apply; may be repeated")
	f.addNodeFlags(fs)
}

// options translates the flags. Those that were not given leave what a configuration file says.
func (f upFlags) options(given func(flag string) bool) ([]cluster.Option, error) {
	var opts []cluster.Option
	for flag, option := range map[string]cluster.Option{
		"nodes": cluster.WithNodes(f.nodes), "api-servers": cluster.WithAPIServers(f.apiServers),
		"etcd-members": cluster.WithEtcdMembers(f.etcds), "ip-family": cluster.WithIPFamily(cluster.IPFamily(f.ipFamily)),
		"schedulers": cluster.WithSchedulers(f.schedulers), "controller-managers": cluster.WithControllerManagers(f.managers),
		"crds": cluster.WithCRDs(f.crds...), "manifest": cluster.WithManifests(f.manifests...),
		"wait": cluster.WaitForManifests(), "kubeconfig-merge": cluster.WithKubeconfigMerged(""),
		"retain": cluster.RetainOnFailure(),
	} {
		if given(flag) && f.on(flag) {
			opts = append(opts, option)
		}
	}
	nodeOptions, err := f.nodeOptions()
	if err != nil {
		return nil, err
	}
	registryOptions, err := f.registryOptions()
	if err != nil {
		return nil, err
	}
	opts = append(append(opts, nodeOptions...), registryOptions...)
	if f.faults != "" {
		plan, err := readPlan(f.faults)
		if err != nil {
			return nil, fmt.Errorf("--faults: %w", err)
		}
		opts = append(opts, cluster.WithFaults(plan))
	}
	if f.store != "" {
		opts = append(opts, cluster.WithStore(cluster.Store(f.store)))
	}
	for _, publish := range f.publish {
		var hostPort, nodePort int
		if n, err := fmt.Sscanf(publish, "%d:%d", &hostPort, &nodePort); n != 2 || err != nil {
			return nil, fmt.Errorf("--publish %q: want HOSTPORT:NODEPORT, e.g. 8080:30080", publish)
		}
		opts = append(opts, cluster.WithPublishedPort(hostPort, nodePort))
	}
	for _, image := range f.images {
		component, ref, ok := strings.Cut(image, "=")
		if !ok {
			return nil, fmt.Errorf("--image %q: want COMPONENT=REF, e.g. kube-scheduler=mine:dev", image)
		}
		opts = append(opts, cluster.WithImage(cluster.Component(component), ref))
	}
	files, err := f.programFiles()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		opts = append(opts, cluster.WithProgram(file.component, cluster.ProgramFile(file.path)))
	}
	for _, arg := range f.args {
		component, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("--args %q: want COMPONENT=ARGUMENT, e.g. kube-scheduler=--v=4", arg)
		}
		opts = append(opts, cluster.WithArgs(cluster.Component(component), value))
	}
	for _, component := range f.with {
		opts = append(opts, cluster.With(cluster.Component(component)))
	}
	for _, component := range f.without {
		opts = append(opts, cluster.Without(cluster.Component(component)))
	}
	return opts, nil
}

// programFile is a file that runs as a component.
type programFile struct {
	component cluster.Component
	path      string
}

// programFiles are those of --program.
func (f upFlags) programFiles() ([]programFile, error) {
	var files []programFile
	for _, given := range f.programs {
		component, path, ok := strings.Cut(given, "=")
		if !ok {
			return nil, fmt.Errorf("--program %q: want COMPONENT=FILE, e.g. kube-scheduler=bin/my-scheduler", given)
		}
		if !isFile(path) {
			return nil, fmt.Errorf("--program %q: there is no file %s", given, path)
		}
		files = append(files, programFile{cluster.Component(component), path})
	}
	return files, nil
}

// registryOptions translates the flags of registries.
func (f upFlags) registryOptions() ([]cluster.Option, error) {
	var opts []cluster.Option
	if f.registryUser != "" {
		name, password, ok := strings.Cut(f.registryUser, ":")
		if !ok {
			return nil, errors.New("--registry-user: want NAME:PASSWORD")
		}
		opts = append(opts, cluster.WithRegistryUser(name, password))
	}
	for _, mirror := range f.mirrors {
		opts = append(opts, cluster.WithRegistryMirror(mirror))
	}
	for _, host := range f.insecure {
		opts = append(opts, cluster.WithInsecureRegistry(host))
	}
	return opts, nil
}

// on is false for a switch that was turned off.
func (f upFlags) on(flag string) bool {
	off := map[string]bool{"wait": !f.waitForManifests, "kubeconfig-merge": !f.mergeKubeconfig, "retain": !f.retain}
	return !off[flag]
}
