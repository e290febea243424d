// Package boot makes a container a node: an ordered list of steps, then supervision until SIGTERM.
package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"quintet.dev/quintet/cmd/node-init/join"
)

const (
	controlSocket = "/run/node-init.sock"
	dockerSocket  = "/var/run/docker.sock"
	dockerLog     = "/var/log/dockerd.log"
	imageDir      = "/var/lib/quintet/images"
	// loadedDir lies on the engine's volume: what is remembered there is as old as the images themselves.
	loadedDir = "/var/lib/docker/quintet-loaded"
	configDir = "/etc/kubernetes"
	// Where engines look for the authorities of registries.
	dockerAuthorities     = "/etc/docker/certs.d"
	containerdAuthorities = "/etc/containerd/certs.d"
	dockerConfig          = "/etc/docker/daemon.json"
	engineReadyAfter      = 30 * time.Second
)

const usage = `node-init runs as the entry point of a node container:

  node-init [kubelet flags...]          boot the node; the flags are the kubelet's
  node-init stop|start|restart SERVICE  inside a running node: kubelet, kube-proxy, node-routes, dockerd or containerd
  node-init status                      services and their state
  node-init load                        load the archive of images that standard input is into the node's engine
` + join.Usage + `
The engine is dockerd, or with --container-runtime-endpoint or --runtime=cri among the flags, containerd. A service other
than the kubelet and the engine runs where it has a kubeconfig: /etc/kubernetes/<service>.conf. Further arguments of it,
and of the engine, stand in /etc/kubernetes/args/<service>, one a line. Where it has a configuration file,
/etc/kubernetes/<service>.yaml, that names the kubeconfig.
`

// Main is the program: args are the kubelet's flags, or a verb for a node-init that runs already.
func Main(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "stop", "start", "restart", "status":
			return ask(controlSocket, args[0], args[1:], os.Stdout)
		case "load":
			return loadArchive(os.Stdin)
		case "-h", "--help", "help":
			fmt.Print(usage)
			return nil
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(args) > 0 && args[0] == "join" {
		return joinCluster(ctx, args[1:])
	}
	return boot(ctx, args, nil)
}

// joinCluster boots a node that joins by a bootstrap token.
func joinCluster(ctx context.Context, args []string) error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	options, err := join.Parse(args, os.Getenv, hostname)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	node := join.New(options, configDir, os.Stderr)
	kubeletArgs, err := node.Prepare(ctx)
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	return boot(ctx, kubeletArgs, node)
}

// boot runs the node until ctx ends. joining is nil for a node that has all its credentials.
func boot(ctx context.Context, kubeletArgs []string, joining *join.Node) error {
	if err := prepareMounts(); err != nil {
		return err
	}
	if err := useDisk(nodeDisk, onNodeDisk); err != nil {
		return err
	}
	reaper := newReaper()
	supervisor := newSupervisor(reaper)
	defer supervisor.stopAll()
	engine, err := newEngine(reaper, kubeletArgs)
	if err != nil {
		return err
	}
	engineLog, err := os.OpenFile(engine.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer engineLog.Close()
	if err := linkAuthorities(filepath.Join(configDir, "docker", "certs.d"), engine.authorities); err != nil {
		return err
	}
	if err := engine.startAhead(ctx, supervisor, engineLog); err != nil {
		return err
	}
	if err := supervisor.add(service{
		name: engine.name, argv: engine.argv, output: engineLog, beforeRestart: engine.beforeRestart,
	}); err != nil {
		return err
	}
	if err := engine.wait(ctx, engineReadyAfter); err != nil {
		return fmt.Errorf("%w; its log is %s", err, engine.log)
	}
	if err := engine.loadImages(ctx, imageDir); err != nil {
		return err
	}
	if engine.name == "containerd" && flagValue(kubeletArgs, "--resolv-conf") == "" {
		resolver, file, err := offerResolver(ctx, reaper, kubeletArgs)
		if err != nil {
			return err
		}
		if resolver != nil {
			go resolver.run(ctx)
			kubeletArgs = append(slices.Clone(kubeletArgs), "--resolv-conf="+file)
		}
	}
	startServices := func() error { return supervisor.addServices(configDir, kubeletArgs) }
	if err := startServices(); err != nil {
		return err
	}
	if joining != nil {
		go joining.Enrol(ctx, startServices)
	}
	grace, err := shutdownGrace(kubeletArgs)
	if err != nil {
		return err
	}
	if err := serveControl(ctx, controlSocket, supervisor); err != nil || grace == 0 {
		return err
	}
	supervisor.announceShutdown("kubelet", grace+stopGrace)
	return nil
}

// addServices starts those of the node's services that have a kubeconfig and don't run.
func (s *supervisor) addServices(dir string, kubeletArgs []string) error {
	services, err := nodeServices(dir, kubeletArgs)
	if err != nil {
		return err
	}
	for _, service := range services {
		if _, err := s.find(service.name); err == nil {
			continue
		}
		if err := s.add(service); err != nil {
			return err
		}
	}
	return nil
}

// linkAuthorities has the engine find the authorities of registries, a directory per registry in dir, if there is any.
func linkAuthorities(dir, link string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(dir, link)
}

// dockerdCommand starts an engine that leaves packets to the kubelet, node-routes and kube-proxy, with the further
// arguments that dir has for it.
func dockerdCommand(dir string) ([]string, error) {
	further, err := arguments(filepath.Join(dir, "args", "dockerd"))
	return append([]string{
		"dockerd", "--host=unix://" + dockerSocket, "--log-level=warn", "--shutdown-timeout=5",
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-masq=false",
		"--cgroup-parent=/kubepods", "--exec-opt=native.cgroupdriver=cgroupfs",
	}, further...), err
}

// nodeServices lists what runs in addition to the engine: the kubelet, and each service that has a kubeconfig in dir.
func nodeServices(dir string, kubeletArgs []string) ([]service, error) {
	services := []service{{name: "kubelet", argv: append([]string{"kubelet"}, kubeletArgs...), output: os.Stderr}}
	for _, name := range []string{"node-routes", "kube-proxy", "network-policy", "volume-provisioner"} {
		kubeconfig := filepath.Join(dir, name+".conf")
		if _, err := os.Stat(kubeconfig); errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		argv := []string{name, "--kubeconfig=" + kubeconfig}
		config := filepath.Join(dir, name+".yaml") // which names the kubeconfig
		if _, err := os.Stat(config); err == nil {
			argv[1] = "--config=" + config
		}
		further, err := arguments(filepath.Join(dir, "args", name))
		if err != nil {
			return nil, err
		}
		argv = append(append(argv, hostnameOverride(kubeletArgs)...), further...)
		services = append(services, service{name: name, argv: argv, output: os.Stderr})
	}
	return services, nil
}

// arguments reads a file of arguments, one a line; without the file there are none.
func arguments(file string) ([]string, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(string(content), func(r rune) bool { return r == '\n' }), nil
}

// hostnameOverride finds the kubelet's idea of the node's name, which the other services must share.
func hostnameOverride(kubeletArgs []string) []string {
	const flag = "--hostname-override"
	for i, arg := range kubeletArgs {
		if ok, _ := filepath.Match(flag+"=*", arg); ok {
			return []string{arg}
		}
		if arg == flag && i+1 < len(kubeletArgs) {
			return []string{flag + "=" + kubeletArgs[i+1]}
		}
	}
	return nil
}
