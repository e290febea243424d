package cli

import (
	"strings"

	"quintet.dev/quintet/components/etcd"
)

// withoutRestore takes --restore-snapshot out of the arguments, which upstream's etcd does not know. The other fields
// are read, not taken; ok is false where the flag is not given.
func withoutRestore(args []string) (rest []string, restore etcd.Restore, ok bool) {
	restore = etcd.Restore{Name: "default", PeerURL: "http://localhost:2380"}
	fields := map[string]*string{
		"data-dir": &restore.DataDir, "name": &restore.Name, "initial-advertise-peer-urls": &restore.PeerURL,
		"initial-cluster": &restore.InitialCluster, etcd.RestoreFlag: &restore.Snapshot,
	}
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		name = strings.TrimLeft(name, "-")
		begin := i
		if !joined && i+1 < len(args) && fields[name] != nil {
			i++
			value = args[i]
		}
		if field := fields[name]; field != nil && strings.HasPrefix(args[begin], "-") {
			*field = value
		}
		if name != etcd.RestoreFlag {
			rest = append(rest, args[begin:i+1]...)
		}
	}
	if restore.InitialCluster == "" {
		restore.InitialCluster = restore.Name + "=" + restore.PeerURL
	}
	if restore.DataDir == "" {
		restore.DataDir = restore.Name + ".etcd"
	}
	return rest, restore, restore.Snapshot != ""
}
