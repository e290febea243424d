package cluster

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"quintet.dev/quintet/cluster/internal/backend"
)

const (
	registryMember = "registry"
	registryPort   = 5000
	registryData   = "/var/lib/registry"
	// registryAuth holds the credentials of the registry in Docker's format, for those that open the cluster later.
	registryAuth = "registry/auth.json"
)

// RegistryHost is the registry's name in the references of images, for nodes.
var RegistryHost = net.JoinHostPort(registryMember, strconv.Itoa(registryPort))

// account is a user of a registry, and the zero value is none.
type account struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// dockerConfig is the content of a ~/.docker/config.json, and of a secret of type kubernetes.io/dockerconfigjson.
type dockerConfig struct {
	Auths map[string]account `json:"auths"`
}

// registry keeps images for the nodes, over TLS; its certificate is of the cluster's authority.
func (l *layout) registry(name string) (backend.Member, *files) {
	file := l.files(name)
	f := newFiles()
	hosts := append([]string{registryMember, "localhost", "127.0.0.1", l.addressing.PublicHost(), l.addressing.Host(name)},
		l.addressing.IPs(name)...)
	pair, err := l.ids.cluster.Serving(registryMember, hosts...)
	f.pair("pki/registry", pair, err)
	config := map[string]any{
		"version": "0.1",
		"log":     map[string]any{"level": "warn", "accesslog": map[string]any{"disabled": true}},
		"storage": map[string]any{
			"filesystem": map[string]any{"rootdirectory": registryData}, "delete": map[string]any{"enabled": true},
		},
		"http": map[string]any{"addr": net.JoinHostPort(l.bind(Registry, name), l.port(name, registryPort)),
			"tls": map[string]any{"certificate": file("pki/registry.crt"), "key": file("pki/registry.key")}},
	}
	if user := l.config.registryUser; user != (account{}) {
		hash, err := bcrypt.GenerateFromPassword([]byte(user.Password), bcrypt.MinCost)
		f.add("registry/htpasswd", []byte(user.Username+":"+string(hash)+"\n"), err)
		content, err := json.Marshal(dockerConfig{Auths: map[string]account{RegistryHost: user}})
		f.add(registryAuth, content, err)
		config["auth"] = map[string]any{"htpasswd": map[string]any{"realm": "quintet",
			"path": file("registry/htpasswd")}}
	}
	content, err := json.MarshalIndent(config, "", "  ") // which is YAML, too
	f.add("registry/config.yml", content, err)
	return backend.Member{
		Program: "registry", Args: []string{"serve", file("registry/config.yml")}, Port: registryPort,
		Data: []string{registryData},
	}, f
}

// engineFiles tell a node's engine which registries there are. node-init hands them over.
func (l *layout) engineFiles(f *files) {
	if len(l.config.names(Registry)) > 0 {
		f.add("docker/certs.d/"+RegistryHost+"/ca.crt", l.ids.cluster.Cert, nil)
	}
	if l.config.runtime == CRI {
		l.registryHosts(f)
		return
	}
	var args []string
	for _, mirror := range l.config.mirrors {
		args = append(args, "--registry-mirror="+mirror)
	}
	for _, host := range l.config.insecure {
		args = append(args, "--insecure-registry="+host)
	}
	f.arguments("dockerd", args)
}

// registryHosts are a file for each registry that nodes with containerd do not ask as usual
// (https://github.com/containerd/containerd/blob/main/docs/hosts.md).
func (l *layout) registryHosts(f *files) {
	const certificates = "docker/certs.d/"
	var hub strings.Builder
	for _, mirror := range l.config.mirrors {
		fmt.Fprintf(&hub, "[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", mirror)
	}
	if hub.Len() > 0 {
		f.add(certificates+"docker.io/hosts.toml", []byte(hub.String()), nil)
	}
	for _, host := range l.config.insecure {
		content := fmt.Sprintf("[host.%q]\n  skip_verify = true\n[host.%q]\n", "https://"+host, "http://"+host)
		f.add(certificates+host+"/hosts.toml", []byte(content), nil)
	}
}
