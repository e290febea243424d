package cluster

import (
	"path"

	"quintet.dev/quintet/cluster/internal/backend"
)

// etcdHere is etcd in this process, which has no peers. In a process of others it needs no TLS.
func (l *layout) etcdHere(name string, file func(string) string) (backend.Member, *files) {
	args := []string{"--data-dir=" + path.Join(l.addressing.Dir(name), "data"),
		"--listen-client-urls=" + l.url(name, etcdClientPort), "--unsafe-no-fsync=true"}
	member := backend.Member{Program: "etcd", Port: etcdClientPort, Args: args}
	if l.config.inProcess {
		return member, newFiles()
	}
	member.Args = append(args, "--cert-file="+file("pki/etcd/server.crt"), "--key-file="+file("pki/etcd/server.key"),
		"--trusted-ca-file="+file("pki/etcd/ca.crt"), "--client-cert-auth=true")
	return member, l.ids.etcdFiles(l.addressing, name)
}
