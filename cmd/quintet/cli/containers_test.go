package cli

import (
	"strings"
	"testing"

	"quintet.dev/quintet/cluster/owner"
)

// TestCommandsForContainers: each names itself in full, and what helps, where the cluster is a process; its help tells
// of containers.
func TestCommandsForContainers(t *testing.T) {
	dir := t.TempDir()
	self, err := owner.Self()
	if err != nil {
		t.Fatal(err)
	}
	s := state{dir}
	if err := s.save(entry{Name: "t", InProcess: true, Owner: self}, []byte("x")); err != nil {
		t.Fatal(err)
	}
	arguments := map[string]string{
		"pause": "etcd-0", "resume": "etcd-0", "stop": "etcd-0", "start": "etcd-0", "kill": "etcd-0", "restart": "etcd-0",
		"logs": "etcd-0", "export logs": "out", "delay": "etcd-0", "lose": "etcd-0", "cut": "etcd-0 node-1",
		"fill-disk": "etcd-0", "shift-clock": "node-1", "node remove": "1", "snapshot": "f.tar", "load": "x",
		"registry push": "x",
	}
	for path, inGo := range forContainers {
		if code, out, _ := run(t.Context(), dir, append(strings.Fields(path), "--help")...); code != 0 ||
			!strings.Contains(out.String(), "is for clusters of containers.") || !strings.Contains(out.String(), inGo) {
			t.Errorf("%s --help: %d, %s", path, code, out)
		}
		if path == "restore" { // reads its file first
			continue
		}
		args := append(strings.Fields(path), strings.Fields(arguments[path])...)
		code, _, said := run(t.Context(), dir, append(args, "--name", "t")...)
		want := path + " is for clusters of containers, and cluster t runs in a process"
		if code != 1 || !strings.Contains(said.String(), want) || !strings.Contains(said.String(), inGo) {
			t.Errorf("%s: %d, %s", path, code, said)
		}
	}
	code, _, said := run(t.Context(), dir, "token", "create", "--print-join-command", "--name", "t")
	if code != 1 || !strings.Contains(said.String(), ": join-command is for clusters of containers") {
		t.Errorf("token create --print-join-command: %d, %s", code, said)
	}
}
