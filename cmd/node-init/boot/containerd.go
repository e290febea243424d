package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdLog    = "/var/log/containerd.log"
	// containerdData lies on the engine's volume, as Docker's own data does.
	containerdData = "/var/lib/docker/cri"
	containerdDir  = "/run/quintet-containerd" // of its configuration
	// criNamespace is where containerd keeps what came by CRI.
	criNamespace = "k8s.io"
	// generatedNetwork is the configuration of CNI that containerd writes when it learns the ranges of pods.
	generatedNetwork = "/etc/cni/net.d/10-containerd-net.conflist"
)

// containerd is an engine behind CRI.
func containerd(reaper *reaper, kubeletArgs []string) (engine, error) {
	pause := flagValue(kubeletArgs, "--pod-infra-container-image")
	if pause == "" {
		pause = "quintet/pause:dev"
	}
	config := containerdConfig(containerdSettings{
		Data: containerdData, Socket: containerdSocket, Pause: pause, Template: filepath.Join(containerdDir, "cni.template"),
		Authorities: containerdAuthorities, Unprotected: !mayProtect(),
	})
	if err := os.MkdirAll(containerdDir, 0o755); err != nil {
		return engine{}, err
	}
	file := filepath.Join(containerdDir, "config.toml")
	if err := errors.Join(os.WriteFile(file, config, 0o644),
		os.WriteFile(filepath.Join(containerdDir, "cni.template"), []byte(networkTemplate), 0o644)); err != nil {
		return engine{}, err
	}
	if strings.Contains(flagValue(kubeletArgs, "--node-ip"), ":") {
		if err := enableIPv6("/proc/sys/net/ipv6/conf"); err != nil {
			return engine{}, err
		}
	}
	// Of the node's last run, which may have had other ranges. Where it is there, containerd writes no other.
	if err := os.Remove(generatedNetwork); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return engine{}, err
	}
	further, err := arguments(filepath.Join(configDir, "args", "containerd"))
	if err != nil {
		return engine{}, err
	}
	return engine{
		name: "containerd", log: containerdLog, loaded: filepath.Join(containerdData, "quintet-loaded"),
		authorities: containerdAuthorities, argv: append([]string{"containerd", "--config=" + file}, further...),
		ready: func(ctx context.Context) error { return reaper.run(ctx, ctr("version")...) },
		load:  func(ctx context.Context, archive string) error { return reaper.run(ctx, importing(archive)...) },
	}, nil
}

// enableIPv6 lets interfaces that come, such as the pods' bridge, have addresses of IPv6, and so loopback: in a
// container they may not by default.
func enableIPv6(conf string) error {
	for _, name := range []string{"default", "lo"} {
		if err := os.WriteFile(filepath.Join(conf, name, "disable_ipv6"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("enable IPv6: %w", err)
		}
	}
	return nil
}

// ctr is a command line of containerd's client, for the engine behind CRI.
func ctr(args ...string) []string { return ctrAt(containerdSocket, criNamespace, args...) }

// ctrAt is a command line of containerd's client.
func ctrAt(socket, namespace string, args ...string) []string {
	return append([]string{"ctr", "--address=" + socket, "--namespace=" + namespace}, args...)
}

// importing is the command line that imports an archive, for this machine's platform only. "-" is standard input.
func importing(archive string) []string { return ctr("images", "import", archive) }

// run runs a command to its end.
func (r *reaper) run(ctx context.Context, argv ...string) error {
	_, err := r.output(ctx, argv...)
	return err
}

// output runs a command to its end, and returns what it writes, errors included.
func (r *reaper) output(ctx context.Context, argv ...string) (string, error) {
	var output bytes.Buffer
	reading, writing, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer reading.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = writing, writing
	process, done, err := r.start(cmd)
	if err = errors.Join(err, writing.Close()); err != nil {
		return "", err
	}
	read := make(chan error, 1)
	go func() {
		_, err := output.ReadFrom(reading)
		read <- err
	}()
	var exit exitStatus
	select {
	case exit = <-done:
	case <-ctx.Done():
		_ = process.Kill()
		<-done
		return "", ctx.Err()
	}
	if err := <-read; err != nil {
		return "", err
	}
	if exit != (exitStatus{}) {
		return "", fmt.Errorf("%s (code %d): %s", argv[0], exit.Code, strings.TrimSpace(output.String()))
	}
	return output.String(), nil
}

// containerdSettings are what its configuration depends on.
type containerdSettings struct {
	Data, Socket, Pause, Template, Authorities string
	// Unprotected tells that no process may be protected from the OOM killer here.
	Unprotected bool
}

// containerdConfig is containerd's configuration
// (https://github.com/containerd/containerd/blob/main/docs/cri/config.md).
func containerdConfig(s containerdSettings) []byte {
	return fmt.Appendf(nil, configFormat, s.Data, s.Socket, s.Pause, s.Unprotected, s.Template, s.Authorities)
}

const configFormat = `version = 2
root = %q

[grpc]
  address = %q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = %t
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
    conf_template = %q

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %q
`

// networkTemplate is the network of pods, a bridge that node-routes knows, as containerd fills it in with the ranges
// that the kubelet tells (https://www.cni.dev/plugins/current/main/bridge/).
const networkTemplate = `{
  "cniVersion": "1.0.0",
  "name": "quintet-pods",
  "plugins": [{
    "type": "bridge",
    "bridge": "cbr0",
    "isGateway": true,
    "hairpinMode": true,
    "ipam": {
      "type": "host-local",
      "ranges": [{{range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}],
      "routes": [{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}]
    }
  }]
}
`

// mayProtect tells whether this process may protect others from the OOM killer, which takes CAP_SYS_RESOURCE.
func mayProtect() bool {
	data, err := os.ReadFile("/proc/self/status")
	return err != nil || capable(string(data), 24)
}

// capable reads whether a process has a capability, by its number, from its status in /proc.
func capable(status string, capability int) bool {
	_, rest, _ := strings.Cut(status, "CapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	effective, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err != nil || effective&(1<<capability) != 0
}

// usesCRI tells whether the kubelet is to use an engine by CRI, which has to be where containerd is started.
func usesCRI(kubeletArgs []string) (bool, error) {
	endpoint := flagValue(kubeletArgs, "--container-runtime-endpoint")
	if file := flagValue(kubeletArgs, "--config"); file != "" && endpoint == "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return false, fmt.Errorf("configuration of the kubelet: %w", err)
		}
		var config kubeletconfig.KubeletConfiguration
		if err := yaml.Unmarshal(data, &config); err != nil {
			return false, fmt.Errorf("configuration of the kubelet %s: %w", file, err)
		}
		endpoint = config.ContainerRuntimeEndpoint
	}
	if endpoint == "" {
		return flagValue(kubeletArgs, "--runtime") == "cri", nil
	}
	if strings.TrimPrefix(endpoint, "unix://") != containerdSocket {
		return false, fmt.Errorf("--container-runtime-endpoint %q: the node's containerd is at unix://%s", endpoint,
			containerdSocket)
	}
	return true, nil
}
