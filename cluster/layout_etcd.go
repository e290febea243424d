package cluster

import (
	"path"
	"strings"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/components/etcd"
)

func (l *layout) etcd(name string) (backend.Member, *files) {
	file := l.files(name)
	if l.config.inThisProcess(Etcd) {
		return l.etcdHere(name, file)
	}
	var initial []string
	for _, peer := range l.config.names(Etcd) {
		initial = append(initial, peer+"="+l.url(peer, etcdPeerPort))
	}
	var alone []string
	if len(initial) == 1 {
		// A member without peers needs no votes: with short timeouts it becomes leader half a second sooner.
		alone = []string{"--heartbeat-interval=10", "--election-timeout=100"}
	}
	if _, own := l.config.images[Etcd]; !own {
		alone = append(alone, "--"+etcd.RestoreFlag+"="+file(snapshotFile))
	}
	return backend.Member{
		Program: "etcd",
		Port:    etcdClientPort,
		Data:    []string{etcdData},
		Args: append(alone,
			"--name="+name, "--data-dir="+etcdData,
			"--listen-client-urls=https://0.0.0.0:2379", "--advertise-client-urls="+l.url(name, etcdClientPort),
			"--listen-peer-urls=https://0.0.0.0:2380", "--initial-advertise-peer-urls="+l.url(name, etcdPeerPort),
			"--initial-cluster="+strings.Join(initial, ","), "--initial-cluster-state=new",
			"--cert-file="+file("pki/etcd/server.crt"), "--key-file="+file("pki/etcd/server.key"),
			"--trusted-ca-file="+file("pki/etcd/ca.crt"), "--client-cert-auth=true",
			"--peer-cert-file="+file("pki/etcd/peer.crt"), "--peer-key-file="+file("pki/etcd/peer.key"),
			"--peer-trusted-ca-file="+file("pki/etcd/ca.crt"), "--peer-client-cert-auth=true",
			"--log-level=warn",
			"--unsafe-no-fsync=true", // a killed process loses nothing; only a crash of the machine does
		),
	}, l.etcdSnapshot(l.ids.etcdFiles(l.addressing, name))
}

// etcdSnapshot adds the snapshot that the cluster goes on from.
func (l *layout) etcdSnapshot(f *files) *files {
	if from := l.config.from; from != nil && from.etcd != nil {
		f.add(snapshotFile, from.etcd, nil)
	}
	return f
}

// etcdHere is etcd in this process, which has no peers. In a process of others it needs no TLS.
func (l *layout) etcdHere(name string, file func(string) string) (backend.Member, *files) {
	args := []string{"--data-dir=" + path.Join(l.addressing.Dir(name), "data"),
		"--listen-client-urls=" + l.url(name, etcdClientPort), "--unsafe-no-fsync=true",
		"--" + etcd.RestoreFlag + "=" + file(snapshotFile)}
	member := backend.Member{Program: "etcd", Port: etcdClientPort, Args: args}
	if l.config.inProcess {
		return member, l.etcdSnapshot(newFiles())
	}
	member.Args = append(args, "--cert-file="+file("pki/etcd/server.crt"), "--key-file="+file("pki/etcd/server.key"),
		"--trusted-ca-file="+file("pki/etcd/ca.crt"), "--client-cert-auth=true")
	return member, l.etcdSnapshot(l.ids.etcdFiles(l.addressing, name))
}
