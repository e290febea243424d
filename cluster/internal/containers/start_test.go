package containers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"quintet.dev/quintet/cluster/internal/backend"
)

// planned is a back end whose members have places, without an engine.
func planned() *Containers {
	s := block(0, true)
	return &Containers{
		config: Config{Cluster: "c", Owner: "me", Run: "r"}, networkID: "net", network: s,
		host: hostNamed("localhost"),
		members: map[string]place{"api": {ips: s.member(0), published: hostPort{number: 20001}},
			"node-1": {ips: s.member(1)[:1]}},
	}
}

func TestContainerConfig(t *testing.T) {
	c := planned()
	for name, test := range map[string]struct {
		member backend.Member
		want   string // command, entrypoint, host name, volumes, ports, seconds to stop
	}{
		"component": {backend.Member{Name: "api", Program: "kube-apiserver", Args: []string{"--v=2"}, Port: 6443,
			Data: []string{"/data"}}, "[--v=2] [kube-apiserver] c-api [/data] [6443/tcp] 0"},
		"no port of its own": {backend.Member{Name: "node-1", Program: "p", Port: 1}, "[] [p] c-node-1 [] [] 0"},
		"machine": {backend.Member{Name: "node-1", Program: "kubelet", Machine: true, StopGrace: 1600 * time.Millisecond,
			Publish: []backend.PublishedPort{{Host: 80, Member: 8080, Protocol: "udp"}}},
			"[] [] c-node-1 [] [8080/udp] 2"},
		"shares a network": {backend.Member{Name: "x", Program: "p", SharesNetworkWith: "node-1"}, "[] [p]  [] [] 0"},
		"bounded disk": {backend.Member{Name: "x", Program: "p", Data: []string{"/d"}, DataSize: 5},
			"[] [p] c-x [] [] 0"},
	} {
		config := c.containerConfig(test.member, c.published(test.member))
		var volumes, exposed []string
		for dir := range config.Volumes {
			volumes = append(volumes, dir)
		}
		for port := range config.ExposedPorts {
			exposed = append(exposed, port.String())
		}
		seconds := 0
		if config.StopTimeout != nil {
			seconds = *config.StopTimeout
		}
		got := fmt.Sprintf("%v %v %s %v %v %d", config.Cmd, config.Entrypoint, config.Hostname, volumes, exposed, seconds)
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if l := config.Labels; l[LabelCluster] != "c" || l[LabelOwner] != "me" || l[LabelRun] != "r" ||
			l[LabelMember] != test.member.Name || !slices.Contains(config.Env, clockEnv) {
			t.Errorf("%s: labels %v, environment %v", name, l, config.Env)
		}
	}
}

// TestLabelsOfAdopted: what is added to a cluster of another process is removed with that cluster.
func TestLabelsOfAdopted(t *testing.T) {
	c := planned()
	c.adopted = map[string]string{LabelCluster: "c", LabelOwner: "another", LabelRun: "s"}
	labels := c.containerConfig(backend.Member{Name: "x", Component: "node"}, nil).Labels
	if labels[LabelOwner] != "another" || labels[LabelRun] != "s" || labels[LabelComponent] != "node" {
		t.Errorf("labels %v", labels)
	}
	if len(c.adopted) != 3 {
		t.Errorf("the labels of one member are those of all: %v", c.adopted)
	}
}

func TestHostConfig(t *testing.T) {
	c := planned()
	for name, test := range map[string]struct {
		member backend.Member
		full   bool
		want   string // network, capabilities, rules for devices, privileged, all of /proc
	}{
		"component":               {backend.Member{}, false, "net [] [] false false"},
		"privileges are a node's": {backend.Member{}, true, "net [] [] false false"},
		"sets addresses": {backend.Member{Network: backend.NetworkAdmin}, false,
			"net [NET_ADMIN NET_RAW] [] false false"},
		"routes": {backend.Member{Network: backend.NetworkRouter}, false,
			"net [NET_ADMIN NET_RAW] [] false true"},
		"makes interfaces": {backend.Member{Network: backend.NetworkTap}, false,
			"net [NET_ADMIN NET_RAW] [c 10:200 rwm] false false"},
		"no network":       {backend.Member{Network: backend.NetworkNone}, false, "none [] [] false false"},
		"shares a network": {backend.Member{SharesNetworkWith: "node-1"}, false, "container:c-node-1 [] [] false false"},
		"privileged node":  {backend.Member{Machine: true}, true, "net [] [] true false"},
		"limited node":     {backend.Member{Machine: true}, false, "net [ALL] [a *:* rwm] false true"},
	} {
		host := c.hostConfig(test.member, privileges{full: test.full}, nil)
		got := fmt.Sprintf("%s %v %v %v %v", host.NetworkMode, []string(host.CapAdd), host.DeviceCgroupRules,
			host.Privileged, host.MaskedPaths != nil)
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	member := backend.Member{Name: "api", Port: 6443, Data: []string{"/d"}, DataSize: 7, DataFrom: "node-1",
		Publish: []backend.PublishedPort{{Host: 80, Member: 8080, Protocol: "tcp", Address: netip.IPv4Unspecified()}},
		Mounts:  []backend.Mount{{HostPath: "/h", ContainerPath: "/m", ReadOnly: true}}}
	host := c.hostConfig(member, privileges{}, c.published(member))
	bound := fmt.Sprint(host.PortBindings[containerPort(backend.PublishedPort{Member: 8080, Protocol: "tcp"})],
		host.PortBindings[containerPort(backend.PublishedPort{Member: 6443, Protocol: "tcp"})])
	if bound != "[{0.0.0.0 80}] [{127.0.0.1 20001}]" || !slices.Equal(host.VolumesFrom, []string{"c-node-1"}) {
		t.Errorf("ports %s, volumes of %v", bound, host.VolumesFrom)
	}
	if len(host.Mounts) != 2 || host.Mounts[0].Source != "/h" || host.Mounts[0].Target != "/m" ||
		!host.Mounts[0].ReadOnly || host.Mounts[1].VolumeOptions.DriverConfig.Options["o"] != "size=7" {
		t.Errorf("mounts %+v", host.Mounts)
	}
}

func TestNetworking(t *testing.T) {
	c := planned()
	for name, want := range map[string]string{"api": "10.213.0.2 fd00:10:213::2", "node-1": "10.213.0.3 invalid IP"} {
		endpoint := c.networking(backend.Member{Name: name}).EndpointsConfig["net"]
		if got := fmt.Sprint(endpoint.IPAMConfig.IPv4Address, " ", endpoint.IPAMConfig.IPv6Address); got != want ||
			!slices.Equal(endpoint.Aliases, []string{name}) {
			t.Errorf("%s: %s, aliases %v", name, got, endpoint.Aliases)
		}
	}
	for _, m := range []backend.Member{{SharesNetworkWith: "api"}, {Network: backend.NetworkNone}} {
		if got := c.networking(m); got != nil {
			t.Errorf("%+v: %+v", m, got)
		}
	}
}

// TestFlagsAreAsApply: a node that joins by `docker run` may do what one that a cluster starts may.
func TestFlagsAreAsApply(t *testing.T) {
	for _, p := range []privileges{{full: true}, {}} {
		var host container.HostConfig
		p.apply(&host)
		planned().unmask(&host)
		flags := strings.Join(p.flags(), " ")
		var want []string
		for dir, options := range host.Tmpfs {
			want = append(want, "--tmpfs "+dir+":"+options)
		}
		if host.Privileged {
			want = append(want, "--privileged")
		}
		for flag, values := range map[string][]string{"--cap-add": host.CapAdd, "--cap-drop": host.CapDrop,
			"--security-opt": host.SecurityOpt, "--device-cgroup-rule": host.DeviceCgroupRules} {
			for _, value := range values {
				want = append(want, flag+" "+value)
			}
		}
		for _, flag := range want {
			if !strings.Contains(flags, flag) {
				t.Errorf("%s: %q is not among %q", p, flag, flags)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]bool{
		"unable to apply caps: operation not permitted": true, "error: apply caps": true,
		"privileged mode is incompatible with user namespaces": true, "no such image": false,
	} {
		if got := refused(errors.New(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestArchive: each directory comes once and before what is in it, and secrets are their owner's alone.
func TestArchive(t *testing.T) {
	packed, err := archive("/etc/kubernetes",
		map[string][]byte{"pki/ca.key": []byte("key"), "pki/ca.crt": nil, "a": []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for reader := tar.NewReader(packed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(reader)
		got = append(got, fmt.Sprintf("%s %o %s", header.Name, header.Mode, content))
	}
	if want := []string{"etc/ 755 ", "etc/kubernetes/ 755 ", "etc/kubernetes/a 600 x", "etc/kubernetes/pki/ 755 ",
		"etc/kubernetes/pki/ca.crt 600 ", "etc/kubernetes/pki/ca.key 600 key"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestPackedProgram: the image that is built has the program where its base has that of the same name.
func TestPackedProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(file, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	build, err := PackedProgram{Base: "base:1", Program: "kubelet", File: file}.context()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for reader := tar.NewReader(build); ; {
		header, err := reader.Next()
		if err != nil {
			break
		}
		content, _ := io.ReadAll(reader)
		got[header.Name] = string(content)
		if header.Mode&0o111 == 0 {
			t.Errorf("%s can't be run", header.Name)
		}
	}
	if len(got) != 2 || got["program"] != "program" ||
		got["Dockerfile"] != "FROM base:1\nCOPY program /usr/local/bin/kubelet\n" {
		t.Errorf("%q", got)
	}
}

func TestBuildError(t *testing.T) {
	for messages, want := range map[string]string{
		"":                                   "<nil>",
		`{"stream":"Step 1"} {"aux":{}}`:     "<nil>",
		`{"stream":"Step 1"} {"error":"no"}`: "no",
		`{"stream"`:                          "unexpected EOF",
	} {
		if got := fmt.Sprint(buildError(strings.NewReader(messages))); got != want {
			t.Errorf("%s: %s", messages, got)
		}
	}
}
